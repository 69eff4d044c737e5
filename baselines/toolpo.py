"""ToolPO (DeepAgent, arXiv 2510.21618): an outcome advantage on all policy tokens plus an action advantage on calls.

``A_t = A_succ + A_action * [t is a tool-call token]``. DeepAgent subtracts the group mean only (``mean``) and sums C
in {0, 1} over the calls; the port in the paper's release takes z-scores (``z``) and the share of correct gold calls.
The memory-folding part of R_action has no counterpart here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slca.credit import Credit, GroupBatch, group_normalise
from slca.segments import TOOL, segment


@dataclass(frozen=True)
class ToolPO:
    """``outcome``: ``rule`` = success in {0, 1}, ``judge`` = the judge's score of the summary in [0, 1].

    A rollout that made no call where one was needed has outcome ``no_call_score`` (reward ``total``), as in all arms.
    """

    normalisation: Literal["z", "mean"] = "z"
    outcome: Literal["rule", "judge"] = "rule"
    name: str = "toolpo"

    def __post_init__(self) -> None:
        if self.normalisation not in ("z", "mean") or self.outcome not in ("rule", "judge"):
            raise ValueError(
                f"ToolPO takes normalisation 'z' or 'mean' and outcome 'rule' or 'judge', "
                f"not {self.normalisation!r} and {self.outcome!r}"
            )

    def __call__(self, batch: GroupBatch) -> Credit:
        outcome = batch.reward("success" if self.outcome == "rule" else "outcome")
        success = outcome.where(batch.reward("no_call") == 0, batch.reward("total"))
        action = batch.reward("action" if self.normalisation == "z" else "n_correct")
        segments = segment(batch.policy_mask)
        tool = segments == TOOL
        z = self.normalisation == "z"
        a_success = group_normalise(success, batch.group, scale_by_std=z)
        a_action = group_normalise(action, batch.group, scale_by_std=z)
        advantages = a_success[:, None] * batch.policy_mask + a_action[:, None] * tool
        return Credit(advantages, batch.policy_mask, segments)
