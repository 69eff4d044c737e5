"""Judges of the final reply, 1 to 5 as the paper's LLM judge gives them. Here: a rubric that needs no model."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any, Protocol

from slca.rollout.rollout import Rollout
from slca.tasks.task import Fact, Task

#: Replies shorter than this (characters) are not judged (paper: R_sum = 0).
MIN_REPLY = 10
MAX_WORDS = 60
#: What an invented value (one that no response, message or argument holds) costs in rubric points.
INVENTED = 1.5

_NUMBER = re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.])-?\d+(?:\.\d+)?")
#: Tokens that only a source can know: ids, dates, times, amounts, e-mail addresses: anything with a digit or an @.
_SPECIFIC = re.compile(r"[^\s\"'()\[\]{}<>]*[\d@][^\s\"'()\[\]{}<>]*")


class Judge(Protocol):
    """Scores a reply; None when there is nothing to judge or the judge failed (the paper's R_sum is 0 then)."""

    name: str
    noise: float

    def score(self, task: Task, rollout: Rollout) -> float | None: ...


def numbers_in(text: str) -> list[float]:
    """Numbers that stand alone in a text; ``1,299.50`` is one number, the 3 of ``A3`` or of ``3.5`` none."""
    return [float(m.group().replace(",", "")) for m in _NUMBER.finditer(text)]


def states(text: str, value: Any) -> bool:
    """Whether ``text`` states a JSON scalar: numbers by value, words case-insensitively and as whole words.

    >>> states("It costs $1,299.50 now.", 1299.5), states("13 or 3.5", 3), states("Sunny in Oslo", "sunny")
    (True, False, True)
    """
    if isinstance(value, bool):
        signs = ("yes", "true", "is ", "has ") if value else ("no", "not", "false", "n't")
        return any(sign in text.lower() for sign in signs)
    if isinstance(value, int | float):
        return any(math.isclose(n, float(value), rel_tol=1e-9, abs_tol=1e-9) for n in numbers_in(text))
    words = str(value).strip().lower()
    if not words:
        return True
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text.lower()) is not None


def scalars(value: Any) -> Iterator[Any]:
    """All scalars of a JSON value."""
    if isinstance(value, dict):
        for v in value.values():
            yield from scalars(v)
    elif isinstance(value, list):
        for v in value:
            yield from scalars(v)
    else:
        yield value


def look_up(value: Any, path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


class RubricJudge:
    """Scores by the task's facts and the rollout's own tool responses.

    5 points, less: 4 x the share of the task's facts that are not stated (a fact's value is the one that the rollout's
    own call of that tool returned; where no own response holds it, it cannot be stated), ``INVENTED`` for each number,
    date, id or address that neither a response nor the request nor a call holds (at most two count), 1 for more than
    ``MAX_WORDS`` words or a repeated sentence. Without facts to state, a reply after a needless call starts from 3.
    Rounded and clipped to 1..5.

    ``noise`` is the standard deviation, in points, of a Gaussian added before rounding, drawn from (seed, task, sample,
    reply): a stand-in for the noisy preference of a real judge, the same whatever the order of scoring.
    """

    name = "rubric"

    def __init__(self, noise: float = 0.0, seed: int = 0) -> None:
        self.noise, self.seed = noise, seed

    def score(self, task: Task, rollout: Rollout) -> float | None:
        reply = rollout.reply
        if not rollout.responses or len(reply) < MIN_REPLY:
            return None
        points = self.points(task, rollout, reply)
        if self.noise > 0:
            points += self.noise * self._gaussian(task, rollout, reply)
        return float(min(5, max(1, math.floor(points + 0.5))))

    def points(self, task: Task, rollout: Rollout, reply: str) -> float:
        """The rubric's points before noise and rounding."""
        start = 5.0 if task.facts else 3.0
        missing = 4.0 * (1.0 - coverage(task, rollout, reply))
        return start - missing - INVENTED * min(2, len(invented(task, rollout, reply))) - float(_rambles(reply))

    def _gaussian(self, task: Task, rollout: Rollout, reply: str) -> float:
        text = f"{self.seed}\x1f{task.id}\x1f{rollout.sample}\x1f{reply}"
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
        uniform = (int.from_bytes(digest, "big") + 0.5) / 2**64
        return NormalDist().inv_cdf(min(max(uniform, 1e-12), 1 - 1e-12))


def coverage(task: Task, rollout: Rollout, reply: str) -> float:
    """Share of the task's facts stated in ``reply``; 1 if there are none."""
    if not task.facts:
        return 1.0
    return sum(_covered(f, task, rollout, reply) for f in task.facts) / len(task.facts)


def _covered(fact: Fact, task: Task, rollout: Rollout, reply: str) -> bool:
    """The k-th fact-bearing gold call of a tool is answered by the rollout's k-th successful call of that tool."""
    gold = [(s, i) for s, step in enumerate(task.gold) for i, c in enumerate(step) if c.name == fact.tool]
    rank = gold.index((fact.step, fact.index)) if (fact.step, fact.index) in gold else 0
    answers = [
        response.value
        for turn in rollout.turns
        for call, response in zip(turn.calls, turn.responses, strict=False)
        if call.name == fact.tool and response.ok
    ]
    if rank >= len(answers):
        return False
    value = look_up(answers[rank], fact.path)
    return value is not None and states(reply, value)


def invented(task: Task, rollout: Rollout, reply: str) -> list[str]:
    """Specific tokens of the reply (with a digit or an @) that no response, message or argument holds."""
    sources = [r.content for r in rollout.responses] + [str(m.get("content") or "") for m in task.messages]
    sources += [str(v) for c in rollout.calls for v in scalars(c.arguments)]
    text = "\n".join(sources).lower()
    known = set(numbers_in(text))
    unsupported = []
    for match in _SPECIFIC.finditer(reply):
        token = match.group().strip(".,;:!?$%\u20ac\u00a3\u00b0").lower()
        if not token or token in text or (token.endswith("c") and token[:-1] in text):
            # A bare number must stand as a number in a source: 3 is not held by 13.
            if not token or not re.fullmatch(r"-?[\d.,]+", token) or _number(token) in known:
                continue
            if re.search(rf"(?<![\w.]){re.escape(token)}(?![\w])", text):
                continue
        elif _number(token) in known:
            continue
        unsupported.append(token)
    return unsupported


def _number(token: str) -> float | None:
    found = numbers_in(token)
    return found[0] if len(found) == 1 else None


def _rambles(reply: str) -> bool:
    sentences = [s.strip().lower() for s in re.split(r"(?<=[.!?])\s+", reply) if s.strip()]
    return len(reply.split()) > MAX_WORDS or len(set(sentences)) < len(sentences)


JUDGES = {"rubric": RubricJudge}
