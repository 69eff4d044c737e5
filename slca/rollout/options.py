"""Where a rollout stops: part of the section ``rollout`` of a config."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Where a rollout stops: assistant turns, calls in one turn, sampled tokens in one turn, tokens in all."""

    max_turns: int = 4
    max_calls: int = 8
    max_tokens: int = 96
    max_context: int = 768
