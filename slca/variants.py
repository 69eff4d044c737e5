"""Variants of SLCA, all ours; with every option at its default this is SLCA.

They answer known weaknesses of the paper's version: one scalar for all calls of a rollout, a mean that holds the
member itself, and summaries that are easier to write after calls that succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from slca.credit import Credit, GroupBatch, group_normalise
from slca.segments import SUMMARY, TOOL, Boundary, run_index, segment


@dataclass(frozen=True)
class SLCAVariant:
    """SLCA with options.

    Attributes:
        per_call: every tool turn is a segment of its own; turn k is compared with the k-th turn of the others by what it
            added to the tool reward (``GroupBatch.turn_rewards``).
        leave_one_out: a member is compared with the mean of the others, ``n / (n - 1)`` times as far away.
        summary_baseline: ``group`` is the mean; ``tool`` is what the tool rewards of the group predict (least squares), so
            that a summary is not praised for calls that made it easy.
    """

    lambda_tool: float = 1.0
    lambda_sum: float = 1.0
    scale_by_std: bool = True
    boundary: Boundary = "paper"
    per_call: bool = False
    leave_one_out: bool = False
    summary_baseline: Literal["group", "tool"] = "group"
    name: str = "slca_variant"

    def __post_init__(self) -> None:
        if self.summary_baseline not in ("group", "tool"):
            raise ValueError(f"option summary_baseline is 'group' or 'tool', not {self.summary_baseline!r}")

    def __call__(self, batch: GroupBatch) -> Credit:
        segments = segment(batch.policy_mask, batch.opens_call, self.boundary)
        tool, summary = segments == TOOL, segments == SUMMARY
        reward = batch.reward("summary")
        if self.summary_baseline == "tool":
            reward = unexplained(reward, batch.reward("tool"), batch.group, summary.any(1))
        advantages = self.lambda_sum * self._normalised(reward, batch.group, summary.any(1))[:, None] * summary
        for turn, tokens in self._turns(batch, tool):
            advantages = advantages + self.lambda_tool * self._normalised(turn, batch.group, tokens.any(1))[:, None] * tokens
        return Credit(advantages, batch.policy_mask, segments)

    def _turns(self, batch: GroupBatch, tool: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(reward (N,), tokens (N, T)) of every tool turn; of all of them together without ``per_call``."""
        if not self.per_call:
            return [(batch.reward("tool"), tool)]
        if batch.turn_rewards is None:
            raise ValueError("option per_call needs turn_rewards in the batch")
        run = run_index(batch.policy_mask)
        n = int(run[tool].max()) + 1 if bool(tool.any()) else 0
        if batch.turn_rewards.shape[1] < n:
            raise ValueError(f"turn_rewards has {batch.turn_rewards.shape[1]} turns, the rollouts have up to {n}")
        return [(batch.turn_rewards[:, k].double(), tool & (run == k)) for k in range(n)]

    def _normalised(self, values: Tensor, group: Tensor, present: Tensor) -> Tensor:
        advantage = group_normalise(values, group, present, self.scale_by_std)
        if self.leave_one_out:
            count = torch.stack([(present & (group == g)).sum() for g in group]).clamp(min=2)
            advantage = advantage * count / (count - 1)
        return advantage


def unexplained(values: Tensor, by: Tensor, group: Tensor, present: Tensor) -> Tensor:
    """What is left of ``values`` (N,) after least squares on ``by`` (N,) in each group, over its present members.

    A group of fewer than three, or with equal ``by``, keeps its values.
    """
    left = values.clone()
    for g in group.unique():
        rows = ((group == g) & present).nonzero().flatten()
        x = by[rows] - by[rows].mean() if len(rows) else by[rows]
        if len(rows) >= 3 and float(x.abs().max()) > 1e-9:
            slope = (x * (values[rows] - values[rows].mean())).sum() / (x * x).sum()
            left[rows] = values[rows] - slope * x
    return left
