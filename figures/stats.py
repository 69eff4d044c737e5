"""Means, intervals and comparisons over seeds and tasks, with numpy and scipy only.

Scores are a matrix ``(S, N)`` float64: one row per training seed, one column per task, NaN where there is no value.
All seeds are evaluated on the same tasks, so seeds and tasks are crossed, and a bootstrap draw resamples rows and
columns jointly (the "pigeonhole" bootstrap, Owen 2007, arXiv 0711.1589): a hard task that is drawn twice is drawn
twice for every seed. Percentile intervals; deterministic by ``rng_seed``.

Two limits to keep in mind: with S seeds the bootstrap sees (S - 1) / S of the variance between seeds, so at S = 3 it
is optimistic about seeds, and it is a little pessimistic about the rest. ``t_interval`` over seed means is the honest
check when seeds are few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats  # type: ignore[import-untyped]

Array = NDArray[np.float64]
DRAWS = 4000


class Estimate(NamedTuple):
    """A point estimate with its interval ``[low, high]``, from ``n_seeds`` seeds and ``n_tasks`` tasks."""

    mean: float
    low: float
    high: float
    n_seeds: int
    n_tasks: int


def matrix(values: ArrayLike) -> Array:
    """``values`` as (S, N) float64 without the rows and columns that are all NaN; ValueError if nothing is left."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2:
        raise ValueError(f"scores must be a matrix (seeds, tasks), got shape {x.shape}")
    known = ~np.isnan(x)
    x = x[known.any(axis=1)][:, known.any(axis=0)]
    if x.size == 0:
        raise ValueError("scores hold no value: every entry is NaN")
    return x


def bootstrap_mean(
    values: ArrayLike, level: float = 0.95, draws: int = DRAWS, rng_seed: int = 0, resample_tasks: bool = True
) -> Estimate:
    """Mean of all known entries of an (S, N) matrix with its crossed bootstrap interval.

    A draw takes S rows and N columns with replacement; its mean weighs entry (s, n) by how often row s was drawn
    times how often column n was. ``resample_tasks=False`` resamples seeds alone.
    """
    x = matrix(values)
    low, high = np.quantile(_drawn_means(x, draws, rng_seed, resample_tasks), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(np.nanmean(x)), float(low), float(high), *x.shape)


def bootstrap_p(values: ArrayLike, draws: int = DRAWS, rng_seed: int = 0) -> float:
    """Two-sided p-value of a mean of zero for an (S, N) matrix: twice the share of draws on the other side of zero.

    At least ``2 / (draws + 1)``, for no number of draws shows that a p-value is zero.
    """
    means = _drawn_means(matrix(values), draws, rng_seed, True)
    tail = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return min(1.0, 2 * (tail + 1) / (len(means) + 1))


def _drawn_means(x: Array, draws: int, rng_seed: int, resample_tasks: bool) -> Array:
    """Mean of each bootstrap draw of (S, N)."""
    rng = np.random.default_rng(rng_seed)
    n_seeds, n_tasks = x.shape
    seed_counts = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=draws).astype(np.float64)
    if resample_tasks:
        task_counts = rng.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), size=draws).astype(np.float64)
    else:
        task_counts = np.ones((1, n_tasks))
    known = ~np.isnan(x)
    sums = ((seed_counts @ np.where(known, x, 0.0)) * task_counts).sum(axis=1)
    weights = ((seed_counts @ known.astype(np.float64)) * task_counts).sum(axis=1)
    return np.asarray(sums[weights > 0] / weights[weights > 0])


def bootstrap_statistic(
    values: ArrayLike,
    statistic: Callable[[Array], float],
    level: float = 0.95,
    draws: int = 1000,
    rng_seed: int = 0,
) -> Estimate:
    """As ``bootstrap_mean`` for any ``statistic`` of an (S, N) matrix, one call of it per draw."""
    x = matrix(values)
    rng = np.random.default_rng(rng_seed)
    n_seeds, n_tasks = x.shape
    found = [
        statistic(x[np.ix_(rng.integers(n_seeds, size=n_seeds), rng.integers(n_tasks, size=n_tasks))])
        for _ in range(draws)
    ]
    low, high = np.nanquantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(statistic(x), float(low), float(high), n_seeds, n_tasks)


def paired_difference(a: ArrayLike, b: ArrayLike, level: float = 0.95, rng_seed: int = 0) -> Estimate:
    """Mean of ``a - b`` with interval; both (S, N), row and column of ``a`` and ``b`` being the same seed and task.

    Pairs in which either side is NaN do not count.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape:
        raise ValueError(f"paired scores must have one shape (seeds, tasks), got {x.shape} and {y.shape}")
    return bootstrap_mean(x - y, level=level, rng_seed=rng_seed)


def t_interval(values: ArrayLike, level: float = 0.95) -> Estimate | None:
    """Mean of (S,) values, one per seed, with Student's interval on S - 1 degrees of freedom; None if S < 2."""
    x = np.asarray(values, dtype=np.float64)
    x = x[~np.isnan(x)]
    if x.size < 2:
        return None
    half = float(stats.t.ppf((1 + level) / 2, x.size - 1) * x.std(ddof=1) / np.sqrt(x.size))
    return Estimate(float(x.mean()), float(x.mean()) - half, float(x.mean()) + half, int(x.size), 1)


def iqm(values: ArrayLike) -> float:
    """Interquartile mean: the mean of the middle half of all known entries (rliable, arXiv 2108.13264).

    As there, floor(n / 4) entries are cut at each end.
    """
    x = np.asarray(values, dtype=np.float64).ravel()
    x = x[~np.isnan(x)]
    return float(stats.trim_mean(x, 0.25)) if x.size else float("nan")


def probability_of_improvement(a: ArrayLike, b: ArrayLike) -> float:
    """P(X > Y) + P(X = Y) / 2 for a random seed of ``a`` and one of ``b`` on the same random task.

    ``a`` (S, N), ``b`` (S', N): the Mann-Whitney statistic per task over all S x S' pairs, averaged over the tasks
    (rliable, arXiv 2108.13264, section 4.3). Tasks without a pair do not count; NaN if there is none.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(f"scores must be (seeds, tasks) over the same tasks, got {x.shape} and {y.shape}")
    pairs = x[:, None, :] - y[None, :, :]
    known = ~np.isnan(pairs)
    wins = np.where(known, (pairs > 0) + 0.5 * (pairs == 0), 0.0).sum(axis=(0, 1))
    counts = known.sum(axis=(0, 1))
    return float((wins[counts > 0] / counts[counts > 0]).mean()) if counts.any() else float("nan")


def seed_band(
    curves: ArrayLike, level: float = 0.95, draws: int = 2000, rng_seed: int = 0
) -> tuple[Array, Array, Array]:
    """Mean and bootstrap band over seeds of curves (S, T); returns mean, low, high, each (T,).

    With one seed the band has no width; with three it is close to the range of the seeds.
    """
    x = np.asarray(curves, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] == 0:
        raise ValueError(f"curves must be (seeds, points) with at least one seed, got shape {x.shape}")
    n = x.shape[0]
    counts = np.random.default_rng(rng_seed).multinomial(n, np.full(n, 1 / n), size=draws)
    low, high = np.quantile(counts @ x / n, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return x.mean(axis=0), low, high


def smooth(values: ArrayLike, window: int) -> Array:
    """Trailing mean of (T,) values over ``window`` points; the first points average what there is so far."""
    x = np.asarray(values, dtype=np.float64)
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    total = np.concatenate([[0.0], np.cumsum(x)])
    end = np.arange(1, x.size + 1)
    start = np.maximum(end - window, 0)
    return (total[end] - total[start]) / (end - start)
