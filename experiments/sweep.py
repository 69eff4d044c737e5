"""Which learning rate each method takes: the best of its sweep by one rule for all.

    python -m experiments.sweep [--records results/tiny/ablations/learning_rate/records]

The rule: process reward of the tasks that need a call plus summary score of all tasks (none counts 0), means over the
greedy evaluation after training, averaged over the sweep's seeds. Both rewards weigh the same and the judge has no
noise, so that no method's own objective decides. The sweep evaluates on tasks that the table does not use.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from figures.records import START, RunRecord, load_runs


def final_reward(run: RunRecord) -> float:
    """Mean process reward plus mean summary score of the run's greedy evaluation, between 0 and 2."""
    greedy = [e for e in run.examples if e["mode"] == "greedy"]
    process = [e["process"] for e in greedy if e["n_gold"] > 0]
    return float(np.mean(process) + np.mean([e["summary"] or 0.0 for e in greedy]))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=Path("results/tiny/ablations/learning_rate/records"))
    args = parser.parse_args(argv)
    scores: dict[str, dict[float, list[float]]] = {}
    for run in load_runs(args.records):
        if run.examples and run.label != START:
            config = run.manifest["config"]
            own = scores.setdefault(config["method"]["name"], {})
            own.setdefault(config["train"]["lr"], []).append(final_reward(run))
    rates = sorted({lr for own in scores.values() for lr in own})
    print("| method | " + " | ".join(f"{lr:g}" for lr in rates) + " | taken |")
    print("|---" * (len(rates) + 2) + "|")
    for method, own in scores.items():
        mean = {lr: float(np.mean(values)) for lr, values in own.items()}
        best = max(mean, key=lambda lr: mean[lr])
        cells = " | ".join(
            f"{mean[lr]:.3f} ({', '.join(f'{v:.3f}' for v in own[lr])})" if lr in own else "not run" for lr in rates
        )
        print(f"| {method} | {cells} | {best:g} |")


if __name__ == "__main__":
    main()
