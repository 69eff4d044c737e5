"""The surrogate against plain loops in float64, and what it must and must not do."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.objective import clipped_surrogate


def loops(new, old, adv, mask, denominator, low, high, ref=None, beta=0.0):
    """The loss written token by token."""
    total = 0.0
    for i in range(len(new)):
        for t in range(len(new[i])):
            if not mask[i][t]:
                continue
            ratio = math.exp(new[i][t] - old[i][t])
            clipped = min(max(ratio, 1 - low), 1 + high)
            total -= min(ratio * adv[i][t], clipped * adv[i][t])
            if ref is not None:
                d = ref[i][t] - new[i][t]
                total += beta * (math.exp(d) - d - 1)
    return total / denominator


def tensors(seed: int, n: int = 3, t: int = 5):
    g = torch.Generator().manual_seed(seed)
    new, old, ref = (-3 * torch.rand(n, t, generator=g, dtype=torch.float64) for _ in range(3))
    adv = torch.randn(n, t, generator=g, dtype=torch.float64)
    return new, old, ref, adv, torch.rand(n, t, generator=g) > 0.3


@given(st.integers(0, 10_000), st.floats(0.05, 0.9), st.floats(0.05, 2.0), st.floats(0.0, 1.0), st.booleans())
@settings(max_examples=60, deadline=None)
def test_equals_plain_loops(seed, low, high, beta, with_reference):
    new, old, ref, adv, mask = tensors(seed)
    reference = ref if with_reference else None
    loss, _ = clipped_surrogate(
        new, old, adv, mask, 17, clip_low=low, clip_high=high, ref_logprobs=reference, kl_coef=beta
    )
    expected = loops(
        new.tolist(), old.tolist(), adv.tolist(), mask.tolist(), 17, low, high,
        ref.tolist() if with_reference else None, beta,
    )  # fmt: skip
    assert math.isclose(loss.item(), expected, rel_tol=1e-10, abs_tol=1e-12)


def test_gradient_at_ratio_one_is_the_policy_gradient_and_zero_off_the_mask():
    _, old, _, adv, mask = tensors(1)
    new = old.clone().requires_grad_()
    loss, stats = clipped_surrogate(new, old, adv, mask, 10)
    loss.backward()
    torch.testing.assert_close(new.grad, torch.where(mask, -adv / 10, torch.zeros_like(adv)))
    assert stats["clip_ratio"] == 0 and stats["approx_kl"] == 0 and stats["kl"] == 0


def test_clip_cuts_the_gradient_in_the_right_direction():
    old = torch.zeros(1, 4, dtype=torch.float64)
    new = torch.tensor([[0.5, 0.5, -0.5, -0.5]], dtype=torch.float64, requires_grad=True)
    adv = torch.tensor([[1.0, -1.0, 1.0, -1.0]], dtype=torch.float64)
    loss, stats = clipped_surrogate(new, old, adv, torch.ones(1, 4, dtype=torch.bool), 1)
    loss.backward()
    # Too far in the direction of the advantage: no gradient. Against it: still pushed back.
    assert [g != 0 for g in new.grad[0].tolist()] == [False, True, True, False]
    assert stats["clip_ratio"] == 2


def test_kl_is_never_negative_and_zero_for_the_reference_itself():
    for seed in range(20):
        new, old, ref, adv, mask = tensors(seed)
        _, stats = clipped_surrogate(new, old, adv, mask, 1, ref_logprobs=ref, kl_coef=0.1)
        assert stats["kl"] >= 0 and stats["approx_kl"] >= 0
        _, stats = clipped_surrogate(new, old, adv, mask, 1, ref_logprobs=new, kl_coef=0.1)
        assert stats["kl"] == 0


def test_kl_gradient_pulls_towards_the_reference():
    new = torch.tensor([[-1.0, -1.0]], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([[-0.5, -2.0]], dtype=torch.float64)
    zeros, mask = torch.zeros_like(ref), torch.ones(1, 2, dtype=torch.bool)
    loss, _ = clipped_surrogate(new, new.detach(), zeros, mask, 1, ref_logprobs=ref, kl_coef=1.0)
    loss.backward()
    assert new.grad[0, 0] < 0 < new.grad[0, 1]


def test_values_off_the_mask_may_be_anything():
    new, old, ref, adv, mask = tensors(2)
    expected, _ = clipped_surrogate(new, old, adv, mask, 5, ref_logprobs=ref, kl_coef=0.5)
    bad = torch.where(mask, old, torch.full_like(old, -1e9))
    adv_bad = torch.where(mask, adv, torch.full_like(adv, float("nan")))
    new.requires_grad_()
    found, stats = clipped_surrogate(new, bad, adv_bad, mask, 5, ref_logprobs=torch.where(mask, ref, bad), kl_coef=0.5)
    assert torch.equal(found, expected) and all(torch.isfinite(v) for v in stats.values())
    found.backward()
    assert torch.isfinite(new.grad).all() and not new.grad[~mask].any()


def test_micro_batches_add_up():
    new, old, ref, adv, mask = tensors(3, n=6)
    whole, _ = clipped_surrogate(new, old, adv, mask, 9, ref_logprobs=ref, kl_coef=0.2)
    parts = [
        clipped_surrogate(new[r], old[r], adv[r], mask[r], 9, ref_logprobs=ref[r], kl_coef=0.2)[0]
        for r in (slice(0, 1), slice(1, 4), slice(4, 6))
    ]
    torch.testing.assert_close(sum(parts), whole)
