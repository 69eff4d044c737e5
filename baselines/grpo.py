"""GRPO (DeepSeekMath, arXiv 2402.03300): one scalar, one z-score over the group, on every policy token."""

from __future__ import annotations

from dataclasses import dataclass

from slca.credit import Credit, GroupBatch, group_normalise
from slca.segments import segment


@dataclass(frozen=True)
class GRPO:
    """``A = (R - mean_group) / (std_group + eps)`` with ``R = w_p R_tool + w_s R_sum`` (reward ``total``)."""

    scale_by_std: bool = True
    name: str = "grpo"

    def __call__(self, batch: GroupBatch) -> Credit:
        advantage = group_normalise(batch.reward("total"), batch.group, scale_by_std=self.scale_by_std)
        return Credit(advantage[:, None] * batch.policy_mask, batch.policy_mask, segment(batch.policy_mask))
