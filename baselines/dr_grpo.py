"""Dr.GRPO (arXiv 2503.20783): GRPO without the division by the group's standard deviation.

Its other change, no mean over each reply's length, holds for every method here: the loss is averaged over the tokens
of the mini-batch. Its constant denominator is ``train.loss_average: constant``.
"""

from __future__ import annotations

from dataclasses import dataclass

from baselines.grpo import GRPO


@dataclass(frozen=True)
class DrGRPO(GRPO):
    """``A = R - mean_group`` on every policy token."""

    scale_by_std: bool = False
    name: str = "dr_grpo"
