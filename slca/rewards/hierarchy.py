"""HierR: one reward for the calls, one for the summary, and the guard between them (paper, section on HierR)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from slca.rewards.breakdown import RewardBreakdown
from slca.rewards.execution import execution_reward
from slca.rewards.judge import Judge
from slca.rewards.options import RewardConfig
from slca.rewards.process import SUCCESS, ProcessWeights, count_right, make_weights, score_process
from slca.rewards.toolrl import toolrl_reward
from slca.rollout.parser import valid_blocks
from slca.rollout.rollout import Rollout
from slca.tasks.task import Task


def score(task: Task, rollout: Rollout, judge: Judge, config: RewardConfig) -> RewardBreakdown:
    """Every reward of one rollout.

    Omission guard: if the gold needs a call and none parsed, or the total is negative, the tool reward is 0 and the
    summary reward is the total (replaced, not subtracted).
    """
    weights = make_weights(config.weights)
    process = score_process(task, rollout)
    matched, executed = process.total(weights), execution_reward(task, rollout)
    r_tool = executed if config.tool == "execution" else matched
    judged = judge.score(task, rollout)
    outcome = 0.0 if judged is None else (judged - 1.0) / 4.0
    opened = any(t.opens_call for t in rollout.turns)
    if config.abstention and not task.needs_call and not opened and rollout.reply:
        outcome = 1.0
    no_call = task.needs_call and not rollout.calls
    total = config.no_call_score if no_call else config.w_process * r_tool + config.w_summary * outcome
    guarded = no_call or total < 0
    gold = [c for step in task.gold for c in step]
    right = count_right(rollout.calls, gold)
    n_blocks = sum(valid_blocks(t) for t in rollout.turns)
    format_valid = n_blocks == sum(t.n_open for t in rollout.turns) == sum(t.n_close for t in rollout.turns)
    return RewardBreakdown(
        format=process.format,
        name=process.name,
        key=process.key,
        value=process.value,
        parallel=process.parallel,
        process=matched,
        judge=judged,
        outcome=outcome,
        no_call=no_call,
        total=total,
        tool=0.0 if guarded else r_tool,
        summary=total if guarded else outcome,
        success=matched >= SUCCESS,
        action=right / len(gold) if gold else 0.0,
        n_correct=right,
        complete=_complete(task, rollout, right == len(gold) and (bool(gold) or not opened), config),
        repeats=_repeats(rollout),
        invalid=sum(not r.ok and r.code != "not_found" for t in rollout.turns for r in t.responses[: len(t.calls)]),
        format_valid=format_valid,
        n_calls=len(rollout.calls),
        n_gold=len(gold),
        execution=executed,
        toolrl=toolrl_reward(rollout.calls, gold, format_valid),
        turn_gains=tuple(0.0 for _ in rollout.turns) if guarded else _turn_gains(task, rollout, weights),
    )


def _turn_gains(task: Task, rollout: Rollout, weights: ProcessWeights) -> tuple[float, ...]:
    """R_tool of the rollout up to each turn, minus that up to the turn before."""
    totals = [0.0]
    for n in range(1, len(rollout.turns) + 1):
        opens = rollout.turns[n - 1].opens_call
        cut = replace(rollout, turns=rollout.turns[:n])
        totals.append(score_process(task, cut).total(weights) if opens else totals[-1])
    return tuple(after - before for before, after in pairwise(totals))


def _repeats(rollout: Rollout) -> int:
    calls = rollout.calls
    return sum(a == b for a, b in pairwise(calls))


def _complete(task: Task, rollout: Rollout, truth: bool, config: RewardConfig) -> float:
    """Mean of the verifier's votes: the rule's truth, each vote wrong with probability ``verifier_flip``."""
    votes = 0
    for vote in range(config.verifier_votes):
        digest = hashlib.blake2b(f"{task.id}\x1f{rollout.sample}\x1f{vote}".encode(), digest_size=8).digest()
        wrong = int.from_bytes(digest, "big") / 2**64 < config.verifier_flip
        votes += truth != wrong
    return votes / config.verifier_votes


#: Fields of the breakdown that methods read as tensors.
REWARDS = (
    "tool", "summary", "total", "process", "outcome", "success", "action", "n_correct", "complete", "repeats",
    "invalid", "format_valid", "no_call", "n_calls", "n_gold", "execution", "toolrl",
)  # fmt: skip


def reward_tensors(breakdowns: Sequence[RewardBreakdown]) -> dict[str, Tensor]:
    """Name -> (N,) float64 tensor for ``GroupBatch.rewards``."""
    return {name: torch.tensor([float(getattr(b, name)) for b in breakdowns], dtype=torch.float64) for name in REWARDS}


def turn_tensor(breakdowns: Sequence[RewardBreakdown]) -> Tensor:
    """(N, K) float64: what turn k added to R_tool, 0 where a rollout has no turn k."""
    width = max((len(b.turn_gains) for b in breakdowns), default=0)
    rows = [[*b.turn_gains, *([0.0] * (width - len(b.turn_gains)))] for b in breakdowns]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), width)
