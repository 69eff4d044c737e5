"""From the policy mask of a rollout to its tool and summary segments (paper, section on SLCA)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

NONE, TOOL, SUMMARY = 0, 1, 2
Boundary = Literal["paper", "structural"]


def run_index(policy_mask: Tensor) -> Tensor:
    """Index of the maximal run of True that each position belongs to, -1 off the mask.

    Args:
        policy_mask: (N, T) bool, True where the policy sampled the token.

    Returns:
        (N, T) int64.

    >>> run_index(torch.tensor([[0, 1, 1, 0, 1, 0]], dtype=torch.bool)).tolist()
    [[-1, 0, 0, -1, 1, -1]]
    """
    if policy_mask.dtype != torch.bool or policy_mask.ndim != 2:
        raise ValueError(f"policy_mask must be (N, T) bool, got {tuple(policy_mask.shape)} {policy_mask.dtype}")
    before = torch.nn.functional.pad(policy_mask, (1, 0))[:, :-1]
    starts = policy_mask & ~before
    return torch.where(policy_mask, starts.long().cumsum(1) - 1, -1)


def segment(policy_mask: Tensor, opens_call: Tensor | None = None, boundary: Boundary = "paper") -> Tensor:
    """Segment of every token: ``NONE`` (0), ``TOOL`` (1) or ``SUMMARY`` (2).

    The last run of policy tokens is the summary, all earlier runs together are the tool segment (thinking before a
    call counts as tool). One run only: summary, tool absent. ``structural`` (ours): a last run that opens a call,
    be it truncated or malformed, belongs to the tool segment, and the summary is absent.

    Args:
        policy_mask: (N, T) bool.
        opens_call: (N, T) bool, True on the tokens of turns that open a call; needed for ``structural`` only.

    Returns:
        (N, T) int8.

    >>> mask = torch.tensor([[0, 1, 1, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0, 0]], dtype=torch.bool)
    >>> segment(mask).tolist()
    [[0, 1, 1, 0, 0, 2, 2], [2, 2, 0, 0, 0, 0, 0]]
    >>> opens = torch.tensor([[0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool)
    >>> segment(mask, opens, "structural").tolist()
    [[0, 1, 1, 0, 0, 1, 1], [2, 2, 0, 0, 0, 0, 0]]
    """
    run = run_index(policy_mask)
    in_last = policy_mask & (run == run.amax(1, keepdim=True)) if policy_mask.shape[1] else policy_mask
    if boundary == "structural":
        if opens_call is None:
            raise ValueError("boundary 'structural' needs opens_call, the mask of turns that open a call")
        in_last = in_last & ~(in_last & opens_call).any(1, keepdim=True)
    elif boundary != "paper":
        raise ValueError(f"unknown boundary {boundary!r}; use 'paper' or 'structural'")
    segments = policy_mask.to(torch.int8) * TOOL
    return segments.masked_fill(in_last, SUMMARY)
