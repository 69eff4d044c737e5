"""The clipped surrogate with per-token advantages (PPO's, as GRPO uses it) and the k3 estimate of the KL divergence."""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    loss_mask: Tensor,
    denominator: int,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    ratio: str = "token",
    ref_logprobs: Tensor | None = None,
    kl_coef: float = 0.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of one micro-batch; summed over micro-batches it is the loss of the whole batch.

        L = 1/D * sum_t [ -min(r_t A_t, clip(r_t, 1 - low, 1 + high) A_t) + beta * (e^{d_t} - d_t - 1) ]

    with r_t = exp(logprob - old logprob) and d_t = reference logprob - logprob (k3, Schulman 2020), over the tokens of
    ``loss_mask``. D, ``denominator``, is the number of policy tokens of the whole mini-batch: the same for every
    method, also for one that trains some of the tokens only.

    With ``ratio="sequence"`` r_t has the value of exp(mean over the row of log r_t) and the gradient of the token's own
    log-probability (GSPO-token, arXiv 2507.18071, equation 13).

    Args:
        logprobs, old_logprobs, advantages, ref_logprobs: (N, T) float; only ``logprobs`` carries a gradient.
        loss_mask: (N, T) bool.

    Returns:
        The loss (scalar) and sums over the tokens of the mask: ``clip_ratio`` (tokens whose gradient the clip cut),
        ``kl`` (k3 to the reference; 0 without one), ``approx_kl`` (k3 between old and new policy).
    """
    mask = loss_mask.to(logprobs.dtype)
    # Off the mask values may be anything; zeros there keep an overflow from reaching sum or gradient as NaN.
    zero = torch.zeros_like(logprobs)
    advantages = torch.where(loss_mask, advantages.to(logprobs.dtype), zero)
    difference = torch.where(loss_mask, logprobs - old_logprobs.to(logprobs.dtype), zero)
    if ratio == "sequence":
        mean = (difference.sum(1) / mask.sum(1).clamp(min=1)).detach()[:, None]
        quotient = (mean + difference - difference.detach()).exp()
    else:
        quotient = difference.exp()
    clipped = quotient.clamp(1.0 - clip_low, 1.0 + clip_high)
    surrogate = torch.minimum(quotient * advantages, clipped * advantages)
    total = -surrogate.sum()
    stats = {
        "clip_ratio": ((clipped * advantages < quotient * advantages) & loss_mask).sum(),
        "approx_kl": _k3(-difference.detach(), mask),
        "kl": torch.zeros((), dtype=logprobs.dtype, device=logprobs.device),
    }
    if ref_logprobs is not None:
        gap = torch.where(loss_mask, ref_logprobs.to(logprobs.dtype) - logprobs, zero)
        kl = _k3(gap, mask)
        total = total + kl_coef * kl
        stats["kl"] = kl.detach()
    return total / denominator, stats


def _k3(gap: Tensor, mask: Tensor) -> Tensor:
    return ((gap.exp() - gap - 1.0) * mask).sum()
