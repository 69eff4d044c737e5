"""How rollouts are rewarded: the section ``rewards`` of a config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RewardConfig:
    """Weights and rules, the same for every method.

    Attributes:
        weights: preset of the five process weights, or the weights by component.
        w_process, w_summary: weights of R_tool and R_sum in the scalar ``total``.
        tool: what R_tool is: ``process``, the match with the gold calls, or ``execution``, what the calls brought about.
        no_call_score: total of a rollout without a parsed call where the gold needs one.
        abstention: ours, off in the paper: where no call is right, making none and replying gives outcome 1.
        verifier_votes: number of completeness votes (RLTR's N).
        verifier_flip: chance that a vote is wrong, seeded by (task, sample, vote).
        judge: who scores summaries; judge_noise: standard deviation on its scale of 1 to 5, in training only;
            judge_seed: seed of that noise.
    """

    weights: str | dict[str, Any] = "paper"
    w_process: float = 1.0
    w_summary: float = 1.0
    tool: str = "process"
    no_call_score: float = -0.5
    abstention: bool = False
    verifier_votes: int = 3
    verifier_flip: float = 0.0
    judge: str = "rubric"
    judge_noise: float = 0.0
    judge_seed: int = 0
