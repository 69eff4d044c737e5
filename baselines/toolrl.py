"""ToolRL (arXiv 2504.13958): GRPO on ToolRL's own reward for the calls (``slca.rewards.toolrl``); no summary reward."""

from __future__ import annotations

from dataclasses import dataclass

from slca.credit import Credit, GroupBatch, group_normalise
from slca.segments import segment


@dataclass(frozen=True)
class ToolRL:
    """``A = (R - mean_group) / (std_group + eps)`` with ``R = format + correctness`` in [-3, 4] (reward ``toolrl``)."""

    scale_by_std: bool = True
    name: str = "toolrl"

    def __call__(self, batch: GroupBatch) -> Credit:
        advantage = group_normalise(batch.reward("toolrl"), batch.group, scale_by_std=self.scale_by_std)
        return Credit(advantage[:, None] * batch.policy_mask, batch.policy_mask, segment(batch.policy_mask))
