"""Which learning rate each method takes: the best of its sweep by one rule for all.

    python -m experiments.sweep [--records results/tiny/ablations/learning_rate/records]

The rule: largest mean training reward (process + outcome, noise of the judge included) over the last half of the
steps. Training rewards decide, so no test task has a say.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from figures.records import RunRecord, load_runs


def final_reward(run: RunRecord) -> float:
    """Mean of process + outcome over the last half of the steps."""
    total = run.series("reward/process") + run.series("reward/outcome")
    return float(np.mean(total[-max(1, len(total) // 2) :]))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=Path("results/tiny/ablations/learning_rate/records"))
    args = parser.parse_args(argv)
    scores: dict[str, dict[float, float]] = {}
    for run in load_runs(args.records):
        if run.metrics:
            config = run.manifest["config"]
            scores.setdefault(config["method"]["name"], {})[config["train"]["lr"]] = final_reward(run)
    rates = sorted({lr for own in scores.values() for lr in own})
    print("| method | " + " | ".join(f"{lr:g}" for lr in rates) + " | taken |")
    print("|---" * (len(rates) + 2) + "|")
    for method, own in scores.items():
        best = max(own, key=lambda lr: own[lr])
        cells = " | ".join(f"{own[lr]:.3f}" if lr in own else "not run" for lr in rates)
        print(f"| {method} | {cells} | {best:g} |")


if __name__ == "__main__":
    main()
