"""MT-GRPO (arXiv 2505.11821): tool turns get the turns' advantage plus the outcome's, the answer gets the outcome's."""

from __future__ import annotations

from dataclasses import dataclass

from slca.credit import Credit, GroupBatch, group_normalise
from slca.segments import SUMMARY, TOOL, segment


@dataclass(frozen=True)
class MTGRPO:
    """``A_turn + outcome_share * A_outcome`` on tool tokens, ``A_outcome`` on the answer's.

    A_turn and A_outcome are z-scores over the group of ``tool`` and ``summary``.
    """

    outcome_share: float = 1.0
    scale_by_std: bool = True
    name: str = "mt_grpo"

    def __call__(self, batch: GroupBatch) -> Credit:
        segments = segment(batch.policy_mask)
        turn = group_normalise(batch.reward("tool"), batch.group, scale_by_std=self.scale_by_std)
        outcome = group_normalise(batch.reward("summary"), batch.group, scale_by_std=self.scale_by_std)
        on_tool = (turn + self.outcome_share * outcome)[:, None] * (segments == TOOL)
        on_answer = outcome[:, None] * (segments == SUMMARY)
        return Credit(on_tool + on_answer, batch.policy_mask, segments)
