"""Rollouts and batches built by hand for the tests of rewards and credit."""

from __future__ import annotations

import random
from typing import Any

import torch

from slca.credit import GroupBatch
from slca.rewards.hierarchy import REWARDS
from slca.rollout.parser import parse_turn
from slca.rollout.rollout import Rollout
from slca.simulator.simulator import episode_of
from slca.tasks.task import Call, Task


def call_text(name: str, /, **arguments: Any) -> str:
    from slca.rollout.chat import chat_format

    return chat_format("compact").call_turn([Call(name, arguments)])


def play(task: Task, *texts: str, sample: int = 0) -> Rollout:
    """The rollout of these turns (texts as the policy wrote them), answered by the task's simulator."""
    episode = episode_of(task)
    turns, spans, ids, mask = [], [], [0], [False]
    for text in texts:
        turn = parse_turn(text)
        if turn.opens_call:
            turn.responses += [episode.call(c.name, c.arguments) for c in turn.calls]
            turn.responses += [episode.parse_error(e.code, e.message) for e in turn.errors]
        spans.append((len(ids), len(ids) + 2))
        ids += [1, 2, 3]
        mask += [True, True, False]
        turns.append(turn)
    return Rollout(task.id, sample, ids, 1, mask, [0.0] * len(ids), turns, spans, "answer")


def random_batch(seed: int, n_groups: int = 4, size: int = 4, length: int = 14) -> GroupBatch:
    """Groups of unequal size with random masks: some rollouts have one run only, some none at all."""
    rng = random.Random(seed)
    group, masks, opens = [], [], []
    for g in range(n_groups):
        for _ in range(rng.randint(1, size)):
            row, call = [False] * length, [False] * length
            at = 0
            for turn in range(rng.choice((0, 1, 2, 2, 3))):
                at += rng.randint(1, 2)
                n = rng.randint(1, 3)
                for t in range(at, min(at + n, length)):
                    row[t], call[t] = True, turn < 1
                at += n
            group.append(g)
            masks.append(row)
            opens.append(call)
    order = list(range(len(group)))
    rng.shuffle(order)
    n = len(group)
    rewards = {name: torch.tensor([rng.choice((0.0, 0.5, 1.0, rng.random())) for _ in range(n)]) for name in REWARDS}
    for flag in ("no_call", "format_valid", "success"):
        rewards[flag] = torch.tensor([float(rng.random() < 0.5) for _ in range(n)])
    return GroupBatch(
        torch.tensor([group[i] for i in order]),
        torch.tensor([masks[i] for i in order]),
        torch.tensor([opens[i] for i in order]),
        {k: v.double() for k, v in rewards.items()},
        [f"task{group[i]}#{i}" for i in order],
    )


def lay_out(*turns: tuple[str, int, int], prompt: int = 3, sample: int = 0) -> Rollout:
    """A rollout without tool answers: per turn its text, its number of policy tokens, and of masked ones after it."""
    mask, spans = [False] * prompt, []
    for _, sampled, masked in turns:
        spans.append((len(mask), len(mask) + sampled))
        mask += [True] * sampled + [False] * masked
    parsed = [parse_turn(text) for text, _, _ in turns]
    ids = list(range(len(mask)))
    return Rollout("t", sample, ids, prompt, mask, [0.0] * len(ids), parsed, spans, "answer")


def batch_of(group: list[int], masks: list[str], **rewards: list[float]) -> GroupBatch:
    """Masks written as text, one letter a token: ``c`` policy token of a call turn, ``w`` of another, ``.`` no policy."""
    return GroupBatch(
        torch.tensor(group),
        torch.tensor([[letter != "." for letter in row] for row in masks]),
        torch.tensor([[letter == "c" for letter in row] for row in masks]),
        {name: torch.tensor(values, dtype=torch.float64) for name, values in rewards.items()},
        [f"rollout{i}" for i in range(len(group))],
    )
