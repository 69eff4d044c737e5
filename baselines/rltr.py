"""RLTR (arXiv 2508.19598): only the planner is trained, by the completeness of its calls.

``R = -1`` if the format is invalid, else ``R_comp - lambda * repeats - mu * invalid``; R_comp is the mean of the
verifier's votes. The settings are those of the port in the paper's release (z-score, no-call score as in all arms). The
summary is left to the model as it is: its tokens are not in the loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from slca.credit import Credit, GroupBatch, group_normalise
from slca.segments import TOOL, segment


@dataclass(frozen=True)
class RLTR:
    """``repeat`` (lambda) and ``error`` (mu) are the costs of a repeated call and of one outside the valid set."""

    repeat: float = 0.1
    error: float = 0.2
    name: str = "rltr"

    def __call__(self, batch: GroupBatch) -> Credit:
        planned = (
            batch.reward("complete") - self.repeat * batch.reward("repeats") - self.error * batch.reward("invalid")
        )
        reward = torch.where(batch.reward("format_valid") > 0, planned, -1.0)
        reward = torch.where(batch.reward("no_call") > 0, batch.reward("total"), reward)
        segments = segment(batch.policy_mask)
        tool = segments == TOOL
        advantage = group_normalise(reward, batch.group)  # rollouts without a call count in the statistics
        return Credit(advantage[:, None] * tool, tool, segments)
