"""An ablation: a YAML file in experiments/configs/ablations whose matrix holds the arms.

    python -m experiments.ablation --name NAME [--seeds 0]
    python -m experiments.ablation --list
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.common import config_parser, read_config
from experiments.matrix import MatrixRunner, cells_of
from experiments.reproduce import write_results

FOLDER = Path(__file__).parent / "configs" / "ablations"


def names() -> list[str]:
    return sorted(p.stem for p in FOLDER.glob("*.yaml"))


def main(argv: Sequence[str] | None = None) -> None:
    parser = config_parser(__doc__)
    parser.add_argument("--name", help="name of the ablation")
    parser.add_argument("--list", action="store_true", help="list the ablations")
    parser.add_argument("--seeds", nargs="*", type=int, default=[], help="seeds (default: those of the profile)")
    parser.add_argument("--jobs", type=int, default=0, help="processes side by side (default: cores / threads)")
    args = parser.parse_args(argv)
    if args.list or args.name not in names():
        print("ablations: " + (", ".join(names()) or "none"))
        if not args.list:
            raise SystemExit(f"error: no ablation {args.name!r}; a file in {FOLDER.name}/ makes a new one")
        return
    args.profile = str(FOLDER / f"{args.name}.yaml")
    config = read_config(args)
    varied = sorted({key for arm in config.matrix.methods.values() for key in arm})
    cells = cells_of(config, args.runs, [], args.seeds)
    complete = MatrixRunner(args.profile, args.set, args.runs, config.train.threads, varied, args.jobs).run(cells)
    out = Path("results") / config.profile / "ablations" / args.name
    write_results([c.folder for c in cells if c.outcome == "finished"], out, list(config.matrix.methods))
    if not complete:
        raise SystemExit("some cells are not finished; call again to go on")


if __name__ == "__main__":
    main()
