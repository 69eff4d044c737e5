"""Segment-locked credit assignment: the paper on one page.

A group is the rollouts of one prompt. Two rewards, one for the calls and one for the summary, are normalised inside the
same group and each is routed to the tokens of its own segment only (paper, section on SLCA).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from slca.segments import SUMMARY, TOOL, Boundary, segment


@dataclass(frozen=True)
class GroupBatch:
    """What a method sees of a batch of rollouts, rows in any order.

    Attributes:
        group: (N,) int64, rollouts of one prompt share a number.
        policy_mask: (N, T) bool, True where the policy sampled the token.
        opens_call: (N, T) bool, True on the tokens of turns that open a call.
        rewards: name -> (N,) float; ``tool`` and ``summary`` for SLCA, ``total`` for GRPO, more for others.
        ids: names of the rollouts for error messages.
        turn_rewards: (N, K) float, what turn k added to the tool reward; for methods that look at single turns.
    """

    group: Tensor
    policy_mask: Tensor
    opens_call: Tensor
    rewards: dict[str, Tensor]
    ids: list[str] = field(default_factory=list)
    turn_rewards: Tensor | None = None

    def reward(self, name: str) -> Tensor:
        """(N,) float64; ValueError if the reward is missing or not finite, naming the rollout."""
        if name not in self.rewards:
            raise ValueError(f"the batch has no reward {name!r}; it has {', '.join(sorted(self.rewards))}")
        values = self.rewards[name].double()
        bad = (~torch.isfinite(values)).nonzero().flatten().tolist()
        if bad:
            who = self.ids[bad[0]] if self.ids else f"number {bad[0]}"
            raise ValueError(f"reward {name!r} of rollout {who} is {values[bad[0]].item()}; rewards must be finite")
        return values


@dataclass(frozen=True)
class Credit:
    """A method's verdict: advantages (N, T) float32, loss_mask (N, T) bool, segments (N, T) int8."""

    advantages: Tensor
    loss_mask: Tensor
    segments: Tensor


class Method(Protocol):
    """An algorithm: from a batch of groups to token advantages, and which tokens are trained."""

    name: str

    def __call__(self, batch: GroupBatch) -> Credit: ...


def group_normalise(
    values: Tensor, group: Tensor, present: Tensor | None = None, scale_by_std: bool = True, eps: float = 1e-6
) -> Tensor:
    """Advantages (N,) float32: ``(R - mean) / (std + eps)`` over the present members of each group.

    Computed in float64 with the unbiased standard deviation (n - 1). A group with at most one present member and a
    group whose members all have the same value get exactly 0, as do members that are not present.

    >>> group_normalise(torch.tensor([1.0, 0.0, 5.0]), torch.tensor([0, 0, 1]))
    tensor([ 0.7071, -0.7071,  0.0000])
    """
    values = values.double()
    present = torch.ones_like(group, dtype=torch.bool) if present is None else present
    _, index = torch.unique(group, return_inverse=True)
    n_groups = int(index.max()) + 1 if len(index) else 0
    weight = present.double()

    def per_group(x: Tensor) -> Tensor:
        return x.new_zeros(n_groups).index_add_(0, index, x * weight)

    count = per_group(torch.ones_like(values))
    mean = per_group(values) / count.clamp(min=1)
    centred = (values - mean[index]) * weight
    # Equal rewards leave rounding noise that the division would blow up: 0.1 + 0.2 is not 0.3.
    scale = per_group(values.abs()) / count.clamp(min=1)
    centred = torch.where(centred.abs() <= 1e-12 * scale[index], torch.zeros_like(centred), centred)
    if scale_by_std:
        std = (per_group(centred**2) / (count - 1).clamp(min=1)).sqrt()
        centred = centred / (std[index] + eps)
    return (centred * (count > 1)[index]).float()


@dataclass(frozen=True)
class SLCA:
    """``lambda_tool * A_tool`` on tool tokens, ``lambda_sum * A_sum`` on summary tokens, 0 elsewhere.

    Each segment's reward is normalised over the members of the group that have that segment; the weights are applied
    after normalisation, before it they would cancel.
    """

    lambda_tool: float = 1.0
    lambda_sum: float = 1.0
    scale_by_std: bool = True
    boundary: Boundary = "paper"
    name: str = "slca"

    def __call__(self, batch: GroupBatch) -> Credit:
        segments = segment(batch.policy_mask, batch.opens_call, self.boundary)
        advantages = torch.zeros(segments.shape, device=segments.device)
        for which, reward, weight in ((TOOL, "tool", self.lambda_tool), (SUMMARY, "summary", self.lambda_sum)):
            tokens = segments == which
            advantage = group_normalise(batch.reward(reward), batch.group, tokens.any(1), self.scale_by_std)
            advantages += weight * advantage[:, None] * tokens
        return Credit(advantages, batch.policy_mask, segments)


def advantage_stats(credit: Credit) -> dict[str, float]:
    """Per segment: mean, std and mean absolute value of the advantages, share that is not zero, token count."""
    stats: dict[str, float] = {}
    for name, which in (("tool", TOOL), ("summary", SUMMARY)):
        values = credit.advantages[(credit.segments == which) & credit.loss_mask].double()
        n = values.numel()
        stats |= {
            f"advantage/{name}/mean": values.mean().item() if n else 0.0,
            f"advantage/{name}/std": values.std(unbiased=False).item() if n else 0.0,
            f"advantage/{name}/abs_mean": values.abs().mean().item() if n else 0.0,
            f"advantage/{name}/nonzero": (values != 0).double().mean().item() if n else 0.0,
            f"advantage/{name}/tokens": float(n),
        }
    return stats
