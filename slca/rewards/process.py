"""R_tool, the process reward: how well the calls of a rollout match the gold (paper, section on HierR)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slca.rollout.parser import valid_blocks
from slca.rollout.rollout import Rollout
from slca.tasks.task import Call, Task

#: Published success threshold on R_tool, with room for rounding.
SUCCESS = 0.9 - 1e-9


@dataclass(frozen=True)
class ProcessWeights:
    """Weights of the five components; they should sum to 1 so that R_tool stays in [0, 1]."""

    format: float = 0.10
    name: float = 0.25
    key: float = 0.15
    value: float = 0.20
    parallel: float = 0.30


#: The published weights and the settings of the paper's weight sweep.
WEIGHTS: dict[str, ProcessWeights] = {
    "paper": ProcessWeights(),
    "uniform": ProcessWeights(0.20, 0.20, 0.20, 0.20, 0.20),
    "value_heavy": ProcessWeights(0.05, 0.20, 0.20, 0.35, 0.20),
    "name_heavy": ProcessWeights(0.05, 0.40, 0.15, 0.15, 0.25),
    "no_parallel": ProcessWeights(0.15, 0.30, 0.25, 0.30, 0.0),
}


def make_weights(setting: str | Mapping[str, float]) -> ProcessWeights:
    """A preset by name, or the five weights by component name."""
    if isinstance(setting, str):
        if setting not in WEIGHTS:
            raise ValueError(f"rewards.weights is {setting!r}; presets: {', '.join(WEIGHTS)}, or a mapping")
        return WEIGHTS[setting]
    known = list(asdict(ProcessWeights()))
    if unknown := set(setting) - set(known):
        raise ValueError(f"rewards.weights has unknown components {sorted(unknown)}; known: {known}")
    return ProcessWeights(**{k: float(v) for k, v in setting.items()})


@dataclass(frozen=True)
class Process:
    """The five components, each in [0, 1]."""

    format: float
    name: float
    key: float
    value: float
    parallel: float

    def total(self, weights: ProcessWeights) -> float:
        """R_tool: the weighted sum, in [0, 1] for weights that sum to 1."""
        parts, factors = asdict(self), asdict(weights)
        return math.fsum(factors[k] * parts[k] for k in parts)


def loosely_equal(a: Any, b: Any) -> bool:
    """Published loose equality: strings trimmed and lower-cased, numbers within 1e-9 (also as text), booleans also
    as text, objects and lists by their JSON with sorted keys."""
    a, b = _plain(a), _plain(b)
    if isinstance(a, float) and isinstance(b, float):
        # Absolute, as published: a relative bound would take two neighbouring ten-digit ids for the same number.
        return abs(a - b) <= 1e-9
    return type(a) is type(b) and bool(a == b)


def _plain(value: Any) -> str | float | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return str(value)
    if isinstance(value, str):
        text = value.strip().lower()
        try:
            number = float(text)
        except ValueError:
            return text
        # "nan" and "inf" are words here; underscores are no part of a number.
        return number if math.isfinite(number) and "_" not in text else text
    return json.dumps(value, sort_keys=True).strip().lower()


def exactly_right(call: Call, gold: Call) -> bool:
    """Same tool, same argument names, every value loosely equal."""
    return (
        call.name == gold.name
        and call.arguments.keys() == gold.arguments.keys()
        and all(loosely_equal(call.arguments[k], v) for k, v in gold.arguments.items())
    )


def count_right(calls: list[Call], gold: list[Call]) -> int:
    """Number of gold calls that were made exactly, each predicted call used once."""
    left = list(calls)
    right = 0
    for g in gold:
        # By position: Python's 1 == True would take another call off the list than the one that matched.
        hit = next((i for i, c in enumerate(left) if exactly_right(c, g)), None)
        if hit is not None:
            del left[hit]
            right += 1
    return right


def _name_f1(calls: list[Call], gold: list[Call]) -> float:
    hits = sum((Counter(c.name for c in calls) & Counter(g.name for g in gold)).values())
    return 2 * hits / (len(calls) + len(gold)) if hits else 0.0


def _match(calls: list[Call], gold: list[Call]) -> list[Call | None]:
    """For each gold call its predicted call of the same name: greedy one-to-one, best argument match first."""

    def worth(c: Call, g: Call) -> tuple[int, float]:
        equal = sum(k in c.arguments and loosely_equal(c.arguments[k], v) for k, v in g.arguments.items())
        return equal, _jaccard(c, g)

    pairs = [(worth(c, g), -i, -j) for i, g in enumerate(gold) for j, c in enumerate(calls) if c.name == g.name]
    matched: list[Call | None] = [None] * len(gold)
    used: set[int] = set()
    for _, i, j in sorted(pairs, reverse=True):
        if matched[-i] is None and -j not in used:
            matched[-i] = calls[-j]
            used.add(-j)
    return matched


def _jaccard(call: Call, gold: Call) -> float:
    union = call.arguments.keys() | gold.arguments.keys()
    return len(call.arguments.keys() & gold.arguments.keys()) / len(union) if union else 1.0


def _format(rollout: Rollout) -> float:
    valid = sum(valid_blocks(t) for t in rollout.turns)
    tags = max(sum(t.n_open for t in rollout.turns), sum(t.n_close for t in rollout.turns))
    return valid / tags if tags else 0.0


def score_process(task: Task, rollout: Rollout) -> Process:
    """The components of R_tool.

    Where no call is right (empty gold; ours, the paper is silent): name, key, value and parallel are 0, so that a
    needless call earns its format at most and no call earns 0.
    """
    calls, gold = rollout.calls, [c for step in task.gold for c in step]
    form = _format(rollout)
    if not gold or not calls:
        return Process(form, 0.0, 0.0, 0.0, 0.0)
    matched = _match(calls, gold)
    with_arguments = [(m, g) for m, g in zip(matched, gold, strict=True) if g.arguments]
    keys = [_jaccard(m, g) if m else 0.0 for m, g in with_arguments]
    n_arguments = sum(len(g.arguments) for _, g in with_arguments)
    equal = sum(
        k in m.arguments and loosely_equal(m.arguments[k], v)
        for m, g in with_arguments
        if m
        for k, v in g.arguments.items()
    )
    first_gold = next(step for step in task.gold if step)
    return Process(
        format=form,
        name=_name_f1(calls, gold),
        key=math.fsum(keys) / len(keys) if keys else 1.0,
        value=equal / n_arguments if n_arguments else 1.0,
        parallel=float(len(rollout.steps[0]) == len(first_gold)),
    )
