"""Contamination and gradients during training, GRPO against SLCA, one figure per quantity, from run records alone.

    python -m figures.diagnostics --records results/tiny/ablations/two_by_two/records --out results/tiny/ablations/two_by_two
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from figures.convergence import STYLES
from figures.records import METHODS, RecordError, RunRecord, by_label, ordered, runs_of, source_arguments
from figures.stats import seed_band

#: Name of the file -> (metrics, title of the axis of each); see ``slca.diagnostics`` for what they are.
FIGURES: dict[str, dict[str, str]] = {
    "contamination": {
        "contamination/tool": "share of the tool tokens' advantage variance\nthat the summary reward explains",
        "contamination/summary": "share of the summary tokens' advantage variance\nthat the tool reward explains",
    },
    "signs": {"sign_disagreement": "tokens whose advantage has another sign\nthan their segment's reward (share)"},
    "gradients": {
        "gradient/cosine": "cosine of tool and summary gradient",
        "gradient/norm_tool": "norm of the tool gradient",
        "gradient/norm_summary": "norm of the summary gradient",
    },
    "noise": {
        "gradient/noise_tool": "tool gradient: variance between prompts\nover squared mean",
        "gradient/noise_summary": "summary gradient: variance between prompts\nover squared mean",
    },
}


def measured(run: RunRecord, metric: str) -> tuple[list[int], list[float]]:
    """(steps from 1, values) where the run measured the metric."""
    rows = [(int(row["step"]) + 1, float(row[metric])) for row in run.metrics if metric in row]
    return [s for s, _ in rows], [v for _, v in rows]


def draw(runs: Sequence[RunRecord], folder: Path, labels: Sequence[str] | None = None) -> list[Path]:
    """Draw every figure of ``FIGURES`` that the runs have measurements for; returns the PNG files.

    Raises:
        RecordError: no run measured anything, or more labels than can be told apart.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    groups = by_label(run for run in runs if any("sign_disagreement" in row for row in run.metrics))
    chosen = [label for label in (labels or ordered(groups)) if label in groups]
    if not chosen:
        raise RecordError("no run on record measured contamination; train with train.diagnose_every above 0")
    if len(chosen) > len(STYLES):
        raise RecordError(f"{len(chosen)} arms to draw; choose up to {len(STYLES)} with --labels")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, panels in FIGURES.items():
        figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels) + 0.6, 3.6), layout="constrained")
        for ax, (metric, title) in zip(np.atleast_1d(axes), panels.items(), strict=True):
            for label, (colour, style) in zip(chosen, STYLES, strict=False):
                found = [measured(run, metric) for run in groups[label].values()]
                length = min(len(values) for _, values in found)
                mean, low, high = seed_band([values[:length] for _, values in found])
                x = found[0][0][:length]
                ax.plot(x, mean, color=colour, linestyle=style, marker="o", markersize=3, label=METHODS.get(label, label))
                ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            ax.set_xlabel("training step")
            ax.set_ylabel(title)
            ax.grid(alpha=0.25)
            if metric.startswith("gradient/n"):
                ax.set_yscale("log")
        handles, names = np.atleast_1d(axes)[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=min(4, len(chosen)), frameon=False)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=150, bbox_inches="tight", metadata={"Software": None})
        plt.close(figure)
        paths.append(path)
    return paths


def main(argv: Sequence[str] | None = None) -> None:
    parser = source_arguments("Draw contamination and gradients from run records.")
    parser.add_argument("--labels", nargs="+", help="arms to draw (default: all)")
    args = parser.parse_args(argv)
    try:
        paths = draw(runs_of(args), args.out / "figures", args.labels)
    except RecordError as error:
        raise SystemExit(f"error: {error}") from error
    print("\n".join(map(str, paths)))


if __name__ == "__main__":
    main()
