"""Support control (SLCA's paper): one shared scalar, normalised and routed by SLCA's segment masks.

Together the segments cover every policy token, so this differs from GRPO only where a segment is absent in some
members of a group: those do not count in that segment's statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slca.credit import SLCA, Credit, GroupBatch
from slca.segments import Boundary


@dataclass(frozen=True)
class SupportControl:
    """SLCA with ``R_tool = R_sum = R``, GRPO's scalar (reward ``total``)."""

    scale_by_std: bool = True
    boundary: Boundary = "paper"
    name: str = "support_control"

    def __call__(self, batch: GroupBatch) -> Credit:
        shared = {"tool": batch.reward("total"), "summary": batch.reward("total")}
        return SLCA(scale_by_std=self.scale_by_std, boundary=self.boundary)(replace(batch, rewards=shared))
