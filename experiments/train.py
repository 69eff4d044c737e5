"""Train and evaluate one method with one seed, and record it.

    python -m experiments.train --method slca --seed 0 [--profile tiny] [--set train.steps=20]

Interrupt it and call it again: it goes on from the last checkpoint. A finished run is not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.common import cell_config, config_parser, read_config, run_cell
from slca.runs import RunLocked
from slca.simulator.simulator import BackendFailed
from slca.trainer import TrainingFailure


def main(argv: Sequence[str] | None = None) -> None:
    parser = config_parser(__doc__)
    parser.add_argument("--method", default="slca", help="label of the matrix of the profile, or sft (no training)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--varied", nargs="*", default=[], help="config keys an ablation varies (for the record)")
    args = parser.parse_args(argv)
    config = cell_config(read_config(args), args.method, args.seed)
    steps = config.train.steps
    spent: list[float] = []

    def report(step: int, record: dict[str, float]) -> None:
        spent.append(record["seconds"])
        left = sum(spent) / len(spent) * (steps - step - 1)
        print(
            f"step {step + 1}/{steps} process {record['reward/process']:.3f} outcome {record['reward/outcome']:.3f} "
            f"success {record['reward/success']:.3f} calls {record['calls_per_task']:.2f} kl {record['kl']:.4f} "
            f"{record['seconds']:.1f} s, {left:.0f} s left",
            flush=True,
        )

    try:
        run = run_cell(config, args.runs, args.varied, report)
    except (TrainingFailure, RunLocked, FileNotFoundError, BackendFailed) as error:
        raise SystemExit(f"error: {error}") from error
    print(f"finished: {run.folder}")


if __name__ == "__main__":
    main()
