"""Statistics against closed formulas and values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figures.stats import (
    bootstrap_mean,
    bootstrap_statistic,
    iqm,
    matrix,
    paired_difference,
    probability_of_improvement,
    seed_band,
    smooth,
    t_interval,
)

NAN = float("nan")
Z95 = 1.959964


def test_one_seed_interval_matches_the_normal_formula() -> None:
    """Tasks alone: the bootstrap's variance is p (1 - p) / n, so the interval is close to Wald's."""
    x = np.array([[1.0] * 120 + [0.0] * 280])
    e = bootstrap_mean(x, draws=20_000)
    half = Z95 * np.sqrt(0.3 * 0.7 / 400)
    assert e.mean == pytest.approx(0.3)
    assert (e.low, e.high) == (pytest.approx(0.3 - half, abs=0.003), pytest.approx(0.3 + half, abs=0.003))
    assert (e.n_seeds, e.n_tasks) == (1, 400)


def test_crossed_variance_of_additive_effects() -> None:
    """With x[s, n] = a[s] + b[n] a draw's variance is var(a) / S + var(b) / N, population variances."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=12), rng.normal(size=60) * 2
    e = bootstrap_mean(a[:, None] + b[None, :], draws=20_000)
    half = Z95 * np.sqrt(a.var() / 12 + b.var() / 60)
    assert (e.high - e.low) / 2 == pytest.approx(half, rel=0.03)


def test_tasks_are_resampled_jointly_across_seeds() -> None:
    """Identical seeds add no information: the interval is that of one seed, not one of S times as many tasks."""
    x = np.random.default_rng(2).integers(0, 2, size=(1, 100)).astype(float)
    one, five = bootstrap_mean(x, draws=20_000), bootstrap_mean(np.repeat(x, 5, axis=0), draws=20_000)
    assert five.high - five.low == pytest.approx(one.high - one.low, rel=0.06)


def test_seeds_alone_when_tasks_are_held() -> None:
    """Two seeds, tasks held: draws are 0, 1/2 and 1 with probability 1/4, 1/2, 1/4."""
    e = bootstrap_mean([[0.0, 0.0], [1.0, 1.0]], resample_tasks=False)
    assert (e.low, e.mean, e.high) == (0.0, 0.5, 1.0)


def test_bootstrap_is_deterministic_by_seed() -> None:
    x = np.random.default_rng(3).normal(size=(3, 40))
    assert bootstrap_mean(x, rng_seed=7) == bootstrap_mean(x, rng_seed=7)
    assert bootstrap_mean(x, rng_seed=7) != bootstrap_mean(x, rng_seed=8)


def test_missing_values_do_not_count() -> None:
    e = bootstrap_mean([[1.0, NAN, 0.0], [NAN, NAN, 1.0], [NAN, NAN, NAN]])
    assert e.mean == pytest.approx(2 / 3)
    assert (e.n_seeds, e.n_tasks) == (2, 2)
    assert 0 <= e.low <= e.mean <= e.high <= 1


@pytest.mark.parametrize(
    ("values", "message"), [([1.0, 2.0], "matrix"), ([[NAN, NAN]], "every entry is NaN"), ([[]], "no value")]
)
def test_scores_without_a_value_are_refused(values: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        matrix(values)


def test_statistic_of_the_mean_agrees_with_the_weighted_form() -> None:
    x = np.random.default_rng(4).normal(size=(4, 50))
    a, b = bootstrap_mean(x), bootstrap_statistic(x, lambda m: float(m.mean()), draws=4000)
    assert a.mean == pytest.approx(b.mean)
    assert (a.low, a.high) == (pytest.approx(b.low, abs=0.03), pytest.approx(b.high, abs=0.03))


def test_pairing_removes_what_both_share() -> None:
    """A constant gain on tasks of very different difficulty has no spread once it is paired."""
    hard = np.random.default_rng(5).normal(size=(3, 30)) * 10
    e = paired_difference(hard + 0.25, hard)
    assert (e.mean, e.low, e.high) == (pytest.approx(0.25), pytest.approx(0.25), pytest.approx(0.25))
    with pytest.raises(ValueError, match=r"\(3, 30\) and \(2, 30\)"):
        paired_difference(hard, hard[:2])


def test_t_interval_known_value() -> None:
    """1, 2, 3: mean 2, standard error 1 / sqrt(3), t(0.975, 2) = 4.302653."""
    e = t_interval([1.0, 2.0, 3.0])
    assert e is not None
    assert e.mean == 2.0
    assert e.high - 2.0 == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)
    assert t_interval([1.0]) is None
    assert t_interval([1.0, NAN]) is None


def test_iqm_is_the_mean_of_the_middle_half() -> None:
    assert iqm([[0.0, 1.0, 2.0, 100.0]]) == 1.5
    assert iqm([[-50.0, 1, 2, 3, 4, 5, 6, NAN, 900]]) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert np.isnan(iqm([[NAN]]))


def test_probability_of_improvement_by_hand() -> None:
    """Task 0: pairs 1>0, 1=1, 0=0, 0<1 give (1 + .5 + .5 + 0) / 4; task 1: always better; task 2: no pair."""
    a = [[1.0, 5.0, NAN], [0.0, 5.0, NAN]]
    b = [[0.0, 1.0, 1.0], [1.0, 2.0, 1.0]]
    assert probability_of_improvement(a, b) == pytest.approx((0.5 + 1.0) / 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 8), st.integers(0, 10_000))
def test_probability_of_improvement_is_antisymmetric(s: int, t: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, size=(s, n)), rng.integers(0, 3, size=(t, n))
    assert probability_of_improvement(a, b) + probability_of_improvement(b, a) == pytest.approx(1.0)


def test_seed_band_of_two_seeds_is_their_range() -> None:
    mean, low, high = seed_band([[0.0, 1.0], [1.0, 3.0]])
    assert mean.tolist() == [0.5, 2.0]
    assert low.tolist() == [0.0, 1.0]
    assert high.tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="at least one seed"):
        seed_band(np.zeros((0, 3)))


def test_smooth_is_a_trailing_mean() -> None:
    assert smooth([1.0, 3.0, 5.0, 7.0], 2).tolist() == [1.0, 2.0, 4.0, 6.0]
    assert smooth([1.0, 3.0], 1).tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="at least 1"):
        smooth([1.0], 0)
