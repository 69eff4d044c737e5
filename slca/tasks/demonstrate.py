"""Demonstrations of a task for the warm start: the right calls and a full summary, or mistakes at given rates.

Responses are the real simulator's, also to wrong calls, so a demonstration is a rollout that could have happened.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slca.simulator.response import ToolResponse
from slca.simulator.simulator import Episode, episode_of
from slca.tasks.catalogue import catalogue
from slca.tasks.generate import draw_arguments
from slca.tasks.phrases import ASK_BACK, EMPTY, FAILED, NO_TOOL
from slca.tasks.spec import is_optional
from slca.tasks.task import Call, Task
from slca.tasks.values import draw

_SLOT = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Noise:
    """Chance of each mistake, per demonstration (per call for the first three, per answered call for the last two).

    Attributes:
        wrong_tool: another listed tool in place of the right one.
        wrong_value: one argument with another value.
        drop_argument: one argument left out.
        serial_instead_of_parallel: the calls of one step made one per turn.
        drop_call: the last of several calls is not made.
        redundant_call: the last call is made once more.
        needless_call: a call where none is right.
        omitted_call: no call where one is right; the reply states nothing.
        omit_fact: the reply leaves out what the call returned.
        invent_fact: the reply states another value in place of a returned one.
    """

    wrong_tool: float = 0.0
    wrong_value: float = 0.0
    drop_argument: float = 0.0
    serial_instead_of_parallel: float = 0.0
    drop_call: float = 0.0
    redundant_call: float = 0.0
    needless_call: float = 0.0
    omitted_call: float = 0.0
    omit_fact: float = 0.0
    invent_fact: float = 0.0


@dataclass
class DemoTurn:
    """One assistant turn: calls with their responses, or the final reply."""

    calls: list[Call] = field(default_factory=list)
    responses: list[ToolResponse] = field(default_factory=list)
    reply: str = ""


@dataclass
class Demonstration:
    turns: list[DemoTurn]


def demonstrate(task: Task, seed: int, noise: Noise) -> Demonstration:
    """One way through a generated task; deterministic by (task id, seed)."""
    rng = random.Random(f"{task.id}/{seed}")
    steps = [list(step) for step in task.gold]
    if steps and rng.random() < noise.omitted_call:
        return Demonstration([DemoTurn(reply=rng.choice(EMPTY))])
    if not steps:
        if rng.random() >= noise.needless_call:
            return Demonstration([DemoTurn(reply=_decline(task, rng))])
        steps = [[_invented_call(task, rng)]]
    episode = episode_of(task)
    turns = []
    for step in _damaged(task, steps, noise, rng):
        turns.append(DemoTurn(step, [episode.call(c.name, c.arguments) for c in step]))
    if rng.random() < noise.redundant_call:
        turns.append(_again(turns[-1], episode))
    turns.append(DemoTurn(reply=_summary(task, turns, noise, rng)))
    return Demonstration(turns)


def _again(turn: DemoTurn, episode: Episode) -> DemoTurn:
    call = turn.calls[-1]
    return DemoTurn([call], [episode.call(call.name, call.arguments)])


def _damaged(task: Task, steps: list[list[Call]], noise: Noise, rng: random.Random) -> list[list[Call]]:
    """The steps with the mistakes in the calls."""
    if sum(len(s) for s in steps) > 1 and rng.random() < noise.drop_call:
        steps = [*steps[:-1], steps[-1][:-1]] if len(steps[-1]) > 1 else steps[:-1]
    if any(len(s) > 1 for s in steps) and rng.random() < noise.serial_instead_of_parallel:
        steps = [[c] for s in steps for c in s]
    return [[_damaged_call(task, c, noise, rng) for c in s] for s in steps]


def _damaged_call(task: Task, call: Call, noise: Noise, rng: random.Random) -> Call:
    params = catalogue().entries[call.name].tool.params
    if rng.random() < noise.wrong_tool:
        return _invented_call(task, rng, instead_of=call)
    arguments = dict(call.arguments)
    if arguments and rng.random() < noise.wrong_value:
        name = rng.choice(list(arguments))
        arguments[name] = draw(params[name], rng)
    if arguments and rng.random() < noise.drop_argument:
        optional = [a for a in arguments if is_optional(params[a])]
        del arguments[rng.choice(optional or list(arguments))]
    return Call(call.name, arguments)


def _invented_call(task: Task, rng: random.Random, instead_of: Call | None = None) -> Call:
    """A call of a listed tool that the request does not ask for; arguments of the same name are kept."""
    entries = catalogue().entries
    names = [t["function"]["name"] for t in task.tools]
    if instead_of is None:
        return Call(name := rng.choice(names), draw_arguments(entries[name].tool, rng))
    # Tools that take what the request gives are confused first.
    others = [n for n in names if n != instead_of.name] or names
    shared = {n: len(entries[n].tool.params.keys() & instead_of.arguments.keys()) for n in others}
    name = rng.choices(others, [1 + 3 * shared[n] for n in others])[0]
    arguments = draw_arguments(entries[name].tool, rng)
    return Call(name, {k: instead_of.arguments.get(k, v) for k, v in arguments.items()})


# -- replies ----------------------------------------------------------------------------------------------------


def _decline(task: Task, rng: random.Random) -> str:
    """The reply without a call: ask for what is missing, or say that no tool fits."""
    if missing := task.meta.get("missing"):
        return rng.choice(ASK_BACK).replace("{what}", str(missing).replace("_", " "))
    return rng.choice(NO_TOOL)


def _summary(task: Task, turns: Sequence[DemoTurn], noise: Noise, rng: random.Random) -> str:
    """One sentence per call that the user asked about and that was answered."""
    answered = [(c, r.value) for t in turns for c, r in zip(t.calls, t.responses, strict=True) if r.ok]
    wanted = {f.tool for f in task.facts}
    chosen: list[tuple[Call, Any]] = []
    for pair in answered:
        if (pair[0].name in wanted or not wanted) and pair not in chosen:
            chosen.append(pair)
    if not chosen:
        chosen = answered[-1:]
    if not chosen:
        return rng.choice(FAILED)
    sentences = []
    for call, value in chosen:
        if rng.random() < noise.omit_fact:
            continue
        sentences.append(_sentence(call, value, rng.random() < noise.invent_fact, rng))
    return " ".join(sentences) if sentences else rng.choice(EMPTY)


def _sentence(call: Call, value: dict[str, Any], invent: bool, rng: random.Random) -> str:
    tool = catalogue().entries[call.name].tool
    # Only templates whose arguments the call gave: a wrong call may lack some.
    known = {**call.arguments, **value}
    usable = [r for r in tool.reply if set(_SLOT.findall(r)) <= known.keys()]
    template = rng.choice(usable)
    if invent:
        name = rng.choice([s for s in _SLOT.findall(template) if s in value])
        kind = tool.returns[name]
        known[name] = draw(tool.params[kind.removeprefix("echo:")] if kind.startswith("echo:") else kind, rng)
    text = _SLOT.sub(lambda m: state(known[m.group(1)]), template)
    return text[:1].upper() + text[1:]


def state(value: Any) -> str:
    """A JSON value in a sentence: as JSON writes it, so that it can be copied."""
    if isinstance(value, list):
        parts = [state(v) for v in value]
        return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)
    if isinstance(value, dict):
        return ", ".join(state(v) for v in value.values())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
