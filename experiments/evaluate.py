"""Evaluate in-domain: a recorded run's final policy, or any checkpoint folder.

    python -m experiments.evaluate --method slca --seed 0
    python -m experiments.evaluate --checkpoint path/to/checkpoint --out results/mine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.common import START, cell_config, config_parser, evaluate_policy, open_run, read_config
from slca.policy import load_policy


def main(argv: Sequence[str] | None = None) -> None:
    parser = config_parser(__doc__)
    parser.add_argument("--method", default="slca", help="label of the run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run")
    parser.add_argument("--checkpoint", help="a checkpoint folder or embedded name, in place of a run")
    parser.add_argument("--out", type=Path, default=Path("results/checkpoint"), help="folder for --checkpoint's records")
    args = parser.parse_args(argv)
    base = read_config(args)
    torch.set_num_threads(base.train.threads)
    if args.checkpoint:
        try:
            policy = load_policy(args.checkpoint, base.policy.chat)
        except FileNotFoundError as error:
            raise SystemExit(f"error: {error}") from error
        print_summary(evaluate_policy(base, policy, args.out))
        print(f"records: {args.out / 'eval.jsonl'}")
        return
    config = cell_config(base, args.method, args.seed)
    with open_run(config, args.runs) as run:
        policy = load_policy(config.policy.checkpoint, config.policy.chat)
        if config.label != START:
            found = run.latest_checkpoint()
            if found is None or found[0] < config.train.steps:
                at = "no checkpoint" if found is None else f"only step {found[0]} of {config.train.steps}"
                raise SystemExit(
                    f"error: {run.folder} has {at}; run `make train METHOD={args.method} SEED={args.seed}` first"
                )
            run.load_weights(found[1], policy.model)
        print_summary(evaluate_policy(config, policy, run.folder))
        print(f"records: {run.folder / 'eval.jsonl'}")


def print_summary(summary: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("metric", *summary)
    for metric in next(iter(summary.values())):
        cells = [part[metric]["mean"] for part in summary.values()]
        table.add_row(metric, *("-" if c is None else f"{c:.3f}" for c in cells))
    Console().print(table)


if __name__ == "__main__":
    main()
