"""Every reward component by name, never only a sum."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RewardBreakdown:
    """Rewards of one rollout (HierR, section 3 of the paper).

    Attributes:
        format, name, key, value, parallel: components of the process reward, each in [0, 1].
        process: their weighted sum, R_tool as the paper's section 3 defines it, in [0, 1].
        judge: the judge's score 1..5, or None if there was nothing to judge or the judge failed.
        outcome: (judge - 1) / 4 in [0, 1]; 0 when ``judge`` is None.
        no_call: the gold needs a call and none could be parsed.
        total: the scalar GRPO normalises: w_p * process + w_s * outcome, or the no-call score.
        tool, summary: segment rewards after the omission guard: (process, outcome), or (0, total).
        success: process >= 0.9 (with room for rounding).
        action: correct gold calls / number of gold calls, in [0, 1] (ToolPO); ``n_correct`` is the count.
        complete: mean of the completeness votes in [0, 1] (RLTR).
        repeats: calls equal to the one before; invalid: calls outside the valid set (RLTR).
        format_valid: every opened block is a valid call.
        n_calls, n_gold: predicted and gold calls.
        execution: what the calls brought about, in [0, 1] (``slca.rewards.execution``).
        toolrl: ToolRL's reward in [-3, 4].
        turn_gains: what each tool turn added to R_tool (process weights), all 0 under the omission guard.
    """

    format: float
    name: float
    key: float
    value: float
    parallel: float
    process: float
    judge: float | None
    outcome: float
    no_call: bool
    total: float
    tool: float
    summary: float
    success: bool
    action: float
    n_correct: int
    complete: float
    repeats: int
    invalid: int
    format_valid: bool
    n_calls: int
    n_gold: int
    execution: float
    toolrl: float
    turn_gains: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
