"""The main experiment of a profile: train and evaluate every method with every seed, then table and figures.

    python -m experiments.reproduce [--profile tiny] [--seeds 0 1 2] [--methods grpo slca]

What is finished is not repeated; interrupt it and call it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.common import config_parser, read_config
from experiments.matrix import MatrixRunner, cells_of


def main(argv: Sequence[str] | None = None) -> None:
    parser = config_parser(__doc__)
    parser.add_argument("--methods", nargs="*", default=[], help="labels of the matrix (default: all)")
    parser.add_argument("--seeds", nargs="*", type=int, default=[], help="seeds (default: those of the profile)")
    parser.add_argument("--jobs", type=int, default=0, help="processes side by side (default: cores / threads)")
    parser.add_argument("--out", type=Path, help="folder of the results (default: results/PROFILE)")
    args = parser.parse_args(argv)
    config = read_config(args)
    if unknown := set(args.methods) - set(config.matrix.methods):
        parser.error(f"unknown methods {sorted(unknown)}; the profile has {', '.join(config.matrix.methods)}")
    cells = cells_of(config, args.runs, args.methods and ["sft", *args.methods], args.seeds)
    runner = MatrixRunner(args.profile, args.set, args.runs, config.train.threads, jobs=args.jobs)
    complete = runner.run(cells)
    write_results([c.folder for c in cells if c.outcome == "finished"], args.out or Path("results") / config.profile)
    if not complete:
        raise SystemExit("some cells are not finished; call again to go on")


def write_results(folders: Sequence[Path], out: Path, labels: Sequence[str] = ()) -> None:
    """Records of these runs, then table and figures from the records alone; ``labels``: curves (default: methods)."""
    from figures import convergence, diagnostics, table
    from figures.records import check_comparable, export_runs, load_run_folders

    if not folders:
        raise SystemExit("no finished run: nothing to draw")
    runs = load_run_folders(folders)
    check_comparable(runs)
    export_runs(runs, out / "records")
    where = ["--records", str(out / "records"), "--out", str(out)]
    table.main(where)
    drawn = [label for label in labels if any(run.label == label and run.metrics for run in runs)]
    if len(drawn) > len(convergence.STYLES):
        print(f"{len(drawn)} arms are more than one figure can keep apart; draw some with python -m figures.convergence")
    elif any(run.metrics for run in runs):
        convergence.main([*where, *(["--labels", *drawn] if drawn else [])])
    if any("sign_disagreement" in row for run in runs for row in run.metrics):
        arms = [label for label in (drawn or ["grpo", "slca"]) if label in {run.label for run in runs}]
        diagnostics.draw(runs, out / "figures", arms[: len(convergence.STYLES)])
    print((out / "table.md").read_text(encoding="utf-8"))
    print((out / "comparison.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
