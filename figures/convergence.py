"""Convergence of the tool and the summary reward during training, drawn from run records alone.

``python -m figures.convergence --profile tiny`` writes ``convergence.png`` and ``.pdf`` under results/tiny/figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from figures.records import METHODS, RecordError, RunRecord, by_label, ordered, runs_of, source_arguments
from figures.stats import seed_band, smooth

Array = NDArray[np.float64]

PROCESS, OUTCOME = "reward/process", "reward/outcome"
#: Metric -> panel title.
PANELS = {PROCESS: "Tool process reward", OUTCOME: "Summary outcome reward"}
#: Metric on the x-axis -> (unit of the axis, axis label).
AXES = {
    "step": (1.0, "training step"),
    "tokens/policy_cum": (1e6, "policy tokens sampled (million)"),
    "seconds_cum": (60.0, "wall time (minutes)"),
}
#: Okabe and Ito's palette, which the common kinds of colour blindness keep apart; line styles tell the rest.
STYLES = (
    ("#0072B2", "--"), ("#E69F00", "-."), ("#009E73", ":"), ("#D55E00", "-"),
    ("#CC79A7", (0, (5, 1))), ("#56B4E9", (0, (3, 1, 1, 1))), ("#000000", (0, (1, 1))),
)  # fmt: skip


def smoothing_window(n_steps: int) -> int:
    """Steps in the trailing mean of every smoothed curve: a tenth of the run, at least one (ours)."""
    return max(1, n_steps // 10)


def smoothed(run: RunRecord, key: str) -> Array:
    """The metric's trailing mean over ``smoothing_window`` steps, (steps,)."""
    return smooth(run.series(key), smoothing_window(len(run.metrics)))


def area_under_curve(runs: Sequence[RunRecord], key: str = PROCESS) -> dict[str, dict[int, float]]:
    """Label -> seed -> mean of the unsmoothed metric over all training steps.

    That is the area under the learning curve divided by the number of steps: of two runs that end at the same reward,
    the one that came there earlier has the larger area. Runs without training steps are absent.
    """
    trained = [run for run in runs if run.metrics]
    return {
        label: {seed: float(run.series(key).mean()) for seed, run in seeds.items()}
        for label, seeds in by_label(trained).items()
    }


def curves_over_seeds(seeds: Mapping[int, RunRecord], key: str, axis: str, points: int = 200) -> tuple[Array, Array]:
    """Grid (P,) and smoothed curves (S, P) of one method over a common x-axis.

    Steps are the same for every seed and stay as they are (1-based). Tokens and seconds differ between seeds: there
    the curves are interpolated on the range that all seeds cover.
    """
    runs = [seeds[s] for s in sorted(seeds)]
    values = [smoothed(run, key) for run in runs]
    if axis == "step":
        length = min(v.size for v in values)
        return np.arange(1, length + 1, dtype=np.float64), np.stack([v[:length] for v in values])
    xs = [run.series(axis) for run in runs]
    grid = np.linspace(max(x[0] for x in xs), min(x[-1] for x in xs), points)
    return grid, np.stack([np.interp(grid, x, v) for x, v in zip(xs, values, strict=True)])


def draw(runs: Sequence[RunRecord], folder: Path, labels: Sequence[str] | None = None) -> list[Path]:
    """Draw the convergence figure; returns the paths written, PNG and PDF.

    Args:
        runs: comparable finished runs.
        folder: where ``convergence.png`` and ``convergence.pdf`` go.
        labels: which methods; by default those of the main table that have training steps.

    Raises:
        RecordError: a label without training steps, no label at all, or more than can be told apart.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    trained = by_label(run for run in runs if run.metrics)
    chosen = list(labels) if labels else [label for label in METHODS if label in trained]
    if missing := [label for label in chosen if label not in trained]:
        raise RecordError(f"no training steps on record for {', '.join(missing)}; there are {', '.join(trained)}")
    if not 0 < len(chosen) <= len(STYLES):
        raise RecordError(f"{len(chosen)} methods to draw; choose 1 to {len(STYLES)} with --labels")
    figure, grid = plt.subplots(len(PANELS), len(AXES), figsize=(11, 6), sharey="row", layout="constrained")
    for row, (key, title) in zip(grid, PANELS.items(), strict=True):
        for ax, (axis, (unit, name)) in zip(row, AXES.items(), strict=True):
            for label, (colour, style) in zip(ordered(chosen), STYLES, strict=False):
                x, curves = curves_over_seeds(trained[label], key, axis)
                mean, low, high = seed_band(curves)
                ax.plot(x / unit, mean, color=colour, linestyle=style, label=METHODS.get(label, label))
                ax.fill_between(x / unit, low, high, color=colour, alpha=0.15, linewidth=0)
            ax.set_xlabel(name)
            ax.grid(alpha=0.25)
        row[0].set_ylabel(title)
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(chosen), frameon=False)
    figure.text(0.5, -0.03, _note(trained, chosen), ha="center", fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "convergence.png", folder / "convergence.pdf"]
    for path, stamp in zip(paths, ("Software", "CreationDate"), strict=True):
        figure.savefig(path, dpi=150, bbox_inches="tight", metadata={stamp: None})  # same records, same bytes
    plt.close(figure)
    return paths


def _note(trained: Mapping[str, Mapping[int, RunRecord]], chosen: Sequence[str]) -> str:
    """What the figure shows, in one line, with the stand-ins that produced the rewards."""
    runs = [run for label in chosen for run in trained[label].values()]
    seeds = sorted({len(trained[label]) for label in chosen})
    windows = sorted({smoothing_window(len(run.metrics)) for run in runs})
    parts = sorted({str(run.manifest.get("parts", {}).get("judge", "unknown")) for run in runs})
    return (
        f"Training rollouts. Mean and 95 % bootstrap band over {'–'.join(map(str, seeds))} seed(s), trailing mean over "
        f"{'–'.join(map(str, windows))} step(s). Judge: {', '.join(parts)}."
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = source_arguments("Draw the convergence figure from run records.")
    parser.add_argument("--labels", nargs="+", help="methods to draw (default: those of the main table)")
    args = parser.parse_args(argv)
    try:
        paths = draw(runs_of(args), args.out / "figures", args.labels)
    except RecordError as error:
        raise SystemExit(f"error: {error}") from error
    print("\n".join(map(str, paths)))


if __name__ == "__main__":
    main()
