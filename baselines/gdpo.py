"""GDPO (arXiv 2601.05242): every reward gets its own z-score over the group; their sum goes to every policy token.

Normalisation is separate, as in SLCA, and support is not: the control that tells the two apart. GDPO then whitens the
sums over the batch; ``whiten=False`` leaves that out, so that normalisation is all that differs from GRPO.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from slca.credit import Credit, GroupBatch, group_normalise
from slca.segments import segment


@dataclass(frozen=True)
class GDPO:
    """``A = whiten(sum_k lambda_k (R_k - mean_group) / (std_group + eps))`` with k in {tool, summary}."""

    lambda_tool: float = 1.0
    lambda_sum: float = 1.0
    scale_by_std: bool = True
    whiten: bool = True
    name: str = "gdpo"

    def __call__(self, batch: GroupBatch) -> Credit:
        parts = (("tool", self.lambda_tool), ("summary", self.lambda_sum))
        advantage = torch.stack([
            weight * group_normalise(batch.reward(reward), batch.group, scale_by_std=self.scale_by_std)
            for reward, weight in parts
        ]).sum(0)  # fmt: skip
        if self.whiten:  # one group of all rollouts
            advantage = group_normalise(advantage, torch.zeros_like(batch.group))
        return Credit(advantage[:, None] * batch.policy_mask, batch.policy_mask, segment(batch.policy_mask))
