"""The generated in-domain tasks: requests, gold calls and facts, deterministic by (split, seed, index).

Splits: ``train`` and ``test_seen`` use the same tools and never the same request (requests are divided by a hash of
their text); ``test_unseen`` asks for tools that no training task lists.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from slca.simulator.schema_backend import answer
from slca.tasks.catalogue import Catalogue, Entry, catalogue
from slca.tasks.phrases import JOINTS, OPENERS, PLAIN_DETAILS, VALUE_DETAILS
from slca.tasks.spec import Tool, is_optional
from slca.tasks.task import Call, Fact, Task
from slca.tasks.values import POOLS, draw, say

SPLITS = ("train", "test_seen", "test_unseen")
#: Shares of the kinds.
MIX = {
    "single": 0.25, "choice": 0.25, "parallel": 0.2, "dependent": 0.15, "missing_info": 0.075, "abstention": 0.075,
}
_TEST_SHARE = 5  # one request in five belongs to the tests
_SLOT = re.compile(r"\{([^{}]+)\}")


@dataclass
class Draft:
    """A request with its right calls: what a kind's builder makes, before facts and ids."""

    text: str
    gold: list[list[Call]]
    listed: list[str]
    answers: list[str]
    meta: dict[str, Any]


def generate(n: int, split: str = "train", seed: int = 0, kinds: Sequence[str] | None = None) -> list[Task]:
    """``n`` tasks of a split; the i-th does not depend on ``n``.

    Args:
        kinds: only these kinds, in the proportions of ``MIX``; all when None.

    Raises:
        ValueError: an unknown split or kind.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
    if unknown := set(kinds or ()) - set(MIX):
        raise ValueError(f"unknown kinds {sorted(unknown)}; choose from {', '.join(MIX)}")
    return [make_task(split, seed, i, kinds) for i in range(n)]


def make_task(split: str, seed: int, index: int, kinds: Sequence[str] | None = None) -> Task:
    """The task of that index."""
    cat = catalogue()
    rng = random.Random(f"{split}/{seed}/{index}")
    chosen = [k for k in MIX if not kinds or k in kinds]
    kind = rng.choices(chosen, [MIX[k] for k in chosen])[0]
    sim_seed = rng.randrange(2**31)
    while True:
        draft = BUILDERS[kind](cat, split, sim_seed, rng)
        if _is_test_request(draft.text) == (split != "train"):
            break
    rng.shuffle(draft.listed)
    entries = [cat.entries[n] for n in draft.listed]
    return Task(
        id=f"{split}-{seed}-{index:06d}",
        messages=[{"role": "user", "content": draft.text}],
        tools=[e.schema for e in entries],
        gold=draft.gold,
        facts=_facts(cat, draft, sim_seed),
        tags=[kind],
        returns={n: cat.entries[n].returns for n in draft.listed},
        sim_seed=sim_seed,
        meta={"split": split, "source": "generated", **draft.meta},
    )


def _is_test_request(text: str) -> bool:
    return blake2b(text.lower().encode(), digest_size=4).digest()[0] % _TEST_SHARE == 0


def _facts(cat: Catalogue, draft: Draft, sim_seed: int) -> list[Fact]:
    """What the tool's first reply states, for each gold call that answers the request."""
    facts: list[Fact] = []
    for s, step in enumerate(draft.gold):
        for i, call in enumerate(step):
            if call.name not in draft.answers:
                continue
            entry = cat.entries[call.name]
            value = answer(call.name, call.arguments, entry.returns, sim_seed)
            for slot in _SLOT.findall(entry.tool.reply[0]):
                if slot in entry.tool.returns:
                    facts.extend(Fact(call.name, p, v, s, i) for p, v in _flat(slot, value[slot]))
    return facts


def _flat(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, list):
        return [(f"{path}.{k}", v) for k, v in enumerate(value)]
    return [(path, value)]


# -- requests ---------------------------------------------------------------------------------------------------


def draw_arguments(tool: Tool, rng: random.Random, optional: Sequence[str] = ()) -> dict[str, Any]:
    """Values of the required parameters and of ``optional``; parameters of one kind get different values."""
    arguments: dict[str, Any] = {}
    for name, kind in tool.params.items():
        if is_optional(kind) and name not in optional:
            continue
        value = draw(kind, rng)
        same = [v for k, v in arguments.items() if tool.params[k] == kind]
        for _ in range(20):
            if value not in same or kind == "bool":
                break
            value = draw(kind, rng)
        arguments[name] = value
    return arguments


def choose_options(template: str, rng: random.Random) -> tuple[str, list[str]]:
    """The template with each bracketed part kept (half of the time) or dropped, and the parameters kept so."""
    kept: list[str] = []

    def decide(match: re.Match[str]) -> str:
        if rng.random() < 0.5:
            return ""
        kept.extend(_SLOT.findall(match.group(1)))
        return match.group(1)

    return re.sub(r"\[([^\[\]]*)\]", decide, template), kept


def fill(template: str, spoken: dict[str, str]) -> str:
    text = _SLOT.sub(lambda m: spoken[m.group(1)], template)
    return text[:1].upper() + text[1:]


def ask_for(tool: Tool, rng: random.Random) -> tuple[str, Call]:
    """A request for one call and the call."""
    template, kept = choose_options(rng.choice(tool.ask), rng)
    arguments = draw_arguments(tool, rng, kept)
    spoken = {k: say(v, tool.params[k], rng) for k, v in arguments.items()}
    return fill(template, spoken), Call(tool.name, arguments)


def dress(text: str, rng: random.Random, values: bool = True) -> str:
    """A greeting before and a distracting detail before or after, some of the time."""
    detail = ""
    if rng.random() < 0.35:
        pool = VALUE_DETAILS if values and rng.random() < 0.6 else PLAIN_DETAILS
        detail = _SLOT.sub(lambda m: str(draw(m.group(1), rng)), rng.choice(pool))
    opener = rng.choice(OPENERS)
    if detail and rng.random() < 0.5:
        return f"{opener}{_after(opener, detail)} {text}"
    return f"{opener}{_after(opener, text)}" + (f" {detail}" if detail else "")


def _after(opener: str, text: str) -> str:
    return lower_first(text) if opener.endswith((", ", ": ")) else text


def lower_first(text: str) -> str:
    """Lower-cased first letter, unless the first word is I, a name or an id."""
    first = text.split(" ", 1)[0].strip(",.?!:")
    names = {w for pool in POOLS.values() for v in pool for w in v.split()} if first[:1].isupper() else set()
    if first in ("I", "I'm") or first in names or not first[1:].islower():
        return text
    return text[:1].lower() + text[1:]


# -- kinds ------------------------------------------------------------------------------------------------------


def _distractors(
    cat: Catalogue, split: str, tools: Sequence[str], n: int, alike: bool, rng: random.Random
) -> list[str]:
    """Other tools to list: look-alikes of the first tool, or tools of other domains."""
    allowed = set(cat.names(split)) - set(tools)
    if alike:
        pool = [t for t in cat.look_alikes[tools[0]] if t in allowed][: n + 2]
    else:
        own = {cat.entries[t].domain for t in tools}
        pool = sorted(t for t in allowed if cat.entries[t].domain not in own)
    return rng.sample(pool, min(n, len(pool)))


def _one_call(cat: Catalogue, split: str, rng: random.Random, alike: bool) -> Draft:
    name = rng.choice(cat.targets(split))
    text, call = ask_for(cat.entries[name].tool, rng)
    listed = [name, *_distractors(cat, split, [name], rng.randint(2, 3) if alike else rng.randint(1, 3), alike, rng)]
    return Draft(dress(text, rng), [[call]], listed, [name], {"domain": cat.entries[name].domain})


def _single(cat: Catalogue, split: str, sim_seed: int, rng: random.Random) -> Draft:
    return _one_call(cat, split, rng, alike=False)


def _choice(cat: Catalogue, split: str, sim_seed: int, rng: random.Random) -> Draft:
    return _one_call(cat, split, rng, alike=True)


def _parallel(cat: Catalogue, split: str, sim_seed: int, rng: random.Random) -> Draft:
    name = rng.choice(cat.targets(split))
    tool = cat.entries[name].tool
    names = [name]
    together = None if rng.random() < 0.5 else _ask_together(tool, 2 if rng.random() < 0.8 else 3, rng)
    if together:
        text, calls = together
    else:
        other = rng.choice(_distractors(cat, split, [name], 6, rng.random() < 0.5, rng))
        names.append(other)
        parts = [ask_for(cat.entries[n].tool, rng) for n in names]
        text = parts[0][0] + rng.choice(JOINTS) + lower_first(parts[1][0])
        calls = [p[1] for p in parts]
    listed = names + _distractors(cat, split, names, rng.randint(1, 2), rng.random() < 0.5, rng)
    return Draft(dress(text, rng), [calls], listed, names, {"domain": cat.entries[name].domain})


def _ask_together(tool: Tool, n: int, rng: random.Random) -> tuple[str, list[Call]] | None:
    """One request for ``n`` calls that differ in one argument ("... in Oslo and Rome"); None if no argument fits."""
    fitting = [p for p, k in tool.params.items() if isinstance(k, str) and not is_optional(k) and _is_word(k)]
    if not fitting:
        return None
    varied = rng.choice(fitting)
    kind = str(tool.params[varied])
    template, kept = choose_options(rng.choice(tool.ask), rng)
    shared = draw_arguments(tool, rng, kept)
    others = [v for k, v in shared.items() if k != varied]
    values: list[Any] = []
    while len(values) < n:
        value = draw(kind, rng)
        if value not in values and value not in others:
            values.append(value)
    spoken = {k: say(v, tool.params[k], rng) for k, v in shared.items()}
    words = [say(v, kind, rng) for v in values]
    spoken[varied] = ", ".join(words[:-1]) + " and " + words[-1]
    return fill(template, spoken), [Call(tool.name, {**shared, varied: v}) for v in values]


def _is_word(kind: str) -> bool:
    return kind in POOLS or kind.startswith("id:")


def _dependent(cat: Catalogue, split: str, sim_seed: int, rng: random.Random) -> Draft:
    chain = rng.choice(cat.chains_of(split))
    first, second = cat.entries[chain.first], cat.entries[chain.second]
    template, kept = choose_options(rng.choice(chain.ask), rng)
    arguments = draw_arguments(first.tool, rng, kept)
    key = link(first, second)
    later = draw_arguments(second.tool, rng, [k.removeprefix("then_") for k in kept])
    spoken = {k: say(v, first.tool.params[k], rng) for k, v in arguments.items()}
    spoken |= {f"then_{k}": say(v, second.tool.params[k], rng) for k, v in later.items()}
    text = fill(template, spoken)
    later[key] = answer(chain.first, arguments, first.returns, sim_seed)[key]
    names = [chain.first, chain.second]
    listed = names + _distractors(cat, split, names, rng.randint(1, 2), rng.random() < 0.5, rng)
    gold = [[Call(chain.first, arguments)], [Call(chain.second, later)]]
    return Draft(dress(text, rng), gold, listed, [chain.second], {"domain": first.domain})


def link(first: Entry, second: Entry) -> str:
    """The id that ``first`` returns and ``second`` takes."""
    shared = [k for k in first.tool.returns if k.endswith("_id") and k in second.tool.params]
    if not shared:
        raise ValueError(f"chain {first.tool.name} -> {second.tool.name}: no id of the first is taken by the second")
    return shared[0]


def _missing_info(cat: Catalogue, split: str, sim_seed: int, rng: random.Random) -> Draft:
    entry = cat.entries[rng.choice([n for n in cat.targets(split) if cat.entries[n].tool.vague])]
    tool = entry.tool
    assert tool.vague is not None
    missing, template = tool.vague
    arguments = draw_arguments(tool, rng, [k for k in _SLOT.findall(template) if is_optional(tool.params[k])])
    spoken = {k: say(v, tool.params[k], rng) for k, v in arguments.items()}
    # No detail with a value here: it might look like the value that is missing.
    text = dress(fill(template, spoken), rng, values=False)
    listed = [tool.name, *_distractors(cat, split, [tool.name], rng.randint(1, 3), rng.random() < 0.5, rng)]
    return Draft(text, [], listed, [], {"domain": entry.domain, "missing": missing})


def _abstention(cat: Catalogue, split: str, sim_seed: int, rng: random.Random) -> Draft:
    name = rng.choice(cat.targets(split))
    text, _ = ask_for(cat.entries[name].tool, rng)
    listed = _distractors(cat, split, [name], rng.randint(2, 4), False, rng)
    return Draft(dress(text, rng), [], listed, [], {"domain": cat.entries[name].domain})


BUILDERS = {
    "single": _single, "choice": _choice, "parallel": _parallel, "dependent": _dependent,
    "missing_info": _missing_info, "abstention": _abstention,
}
