"""DAPO (arXiv 2503.14476): GRPO's advantages; groups without variance leave the loss.

Its clip of 0.2 / 0.28 and its missing KL term are settings of the arm (``train.clip_high``, ``train.kl_coef``), its token
mean is everyone's here. Where DAPO samples further prompts in place of dropped ones, we keep the budget equal and do not;
its overlong penalty has no counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass

from slca.credit import Credit, GroupBatch, group_normalise
from slca.segments import segment


@dataclass(frozen=True)
class DAPO:
    """``A = (R - mean_group) / (std_group + eps)``; tokens of groups whose members all have the same R are not trained."""

    name: str = "dapo"

    def __call__(self, batch: GroupBatch) -> Credit:
        advantage = group_normalise(batch.reward("total"), batch.group)
        told_apart = (advantage != 0)[:, None] & (batch.group[:, None] == batch.group[None, :])
        kept = told_apart.any(0)[:, None] & batch.policy_mask
        return Credit(advantage[:, None] * kept, kept, segment(batch.policy_mask))
