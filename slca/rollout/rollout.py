"""A rollout: what was sampled, token for token, and what it meant."""

from __future__ import annotations

from dataclasses import dataclass, field

from slca.simulator.response import ToolResponse
from slca.tasks.task import Call


@dataclass(frozen=True)
class ParseError:
    """Why a call block is not a call. ``code`` is stable, ``message`` goes back to the policy."""

    code: str
    message: str


@dataclass
class Turn:
    """One assistant turn.

    Attributes:
        text: decoded text of the sampled ids, special tokens of the call format kept, end-of-turn token dropped.
        calls: the calls that parsed, in order.
        errors: one per call block that did not parse.
        n_open, n_close: number of opening and closing call tags after thinking was removed.
        responses: one per call, then one per error, in the order in which they were shown to the policy.
        n_valid: number of call blocks that gave calls (a list of calls in one block counts once).
    """

    text: str
    calls: list[Call] = field(default_factory=list)
    errors: list[ParseError] = field(default_factory=list)
    n_open: int = 0
    n_close: int = 0
    responses: list[ToolResponse] = field(default_factory=list)
    n_valid: int = 0

    @property
    def opens_call(self) -> bool:
        return self.n_open > 0


@dataclass
class Rollout:
    """One sampled trajectory of one task. Lists of per-token values have the length of ``token_ids``.

    Attributes:
        task_id, sample: the task and the index of this rollout within its group.
        token_ids: prompt, policy tokens, tool responses and template glue, exactly as fed and sampled.
        prompt_length: number of leading prompt tokens.
        policy_mask: True where the policy sampled the token.
        logprobs: log-probability of each policy token under the sampling distribution; 0.0 elsewhere.
        turns: assistant turns in order; the last one is the final reply if it opens no call.
        turn_spans: [start, end) in ``token_ids`` of each turn's policy tokens.
        stop_reason: ``answer``, ``max_turns``, ``max_calls``, ``max_tokens`` or ``context``.
    """

    task_id: str
    sample: int
    token_ids: list[int]
    prompt_length: int
    policy_mask: list[bool]
    logprobs: list[float]
    turns: list[Turn]
    turn_spans: list[tuple[int, int]]
    stop_reason: str

    @property
    def steps(self) -> list[list[Call]]:
        """Predicted steps: the calls of each turn that made any."""
        return [t.calls for t in self.turns if t.calls]

    @property
    def calls(self) -> list[Call]:
        return [c for t in self.turns for c in t.calls]

    @property
    def responses(self) -> list[ToolResponse]:
        return [r for t in self.turns for r in t.responses]

    @property
    def reply(self) -> str:
        """Text of the final reply, "" when the rollout ended without one."""
        return self.turns[-1].text.strip() if self.turns and not self.turns[-1].opens_call else ""
