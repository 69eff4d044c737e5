"""GSPO-token (arXiv 2507.18071): GRPO's advantages under a sequence-level importance ratio.

The ratio is the objective's: set ``train.ratio: sequence`` and GSPO's small clip range in the arm
(``train.clip_low: 3e-4``, ``train.clip_high: 4e-4``). With one update per batch the ratio is 1 and GSPO is GRPO.
"""

from __future__ import annotations

from dataclasses import dataclass

from baselines.grpo import GRPO


@dataclass(frozen=True)
class GSPOToken(GRPO):
    """``A = (R - mean_group) / (std_group + eps)`` on every policy token."""

    name: str = "gspo_token"
