"""Look at recorded rollouts of a run: requests, turns, tool responses and every reward.

    python -m experiments.show --method slca --seed 0 [--step 40] [--n 3]
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from experiments.common import cell_config, config_parser, open_run, read_config
from slca.assembly import train_tasks


def main(argv: Sequence[str] | None = None) -> None:
    parser = config_parser(__doc__)
    parser.add_argument("--method", default="slca", help="label of the run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the run")
    parser.add_argument("--step", type=int, help="a step whose rollouts were kept (default: the last one)")
    parser.add_argument("--n", type=int, default=3, help="how many rollouts to show")
    args = parser.parse_args(argv)
    config = cell_config(read_config(args), args.method, args.seed)
    with open_run(config, args.runs) as run:
        kept = sorted((run.folder / "rollouts").glob("step-*.jsonl"))
        if not kept:
            raise SystemExit(f"error: {run.folder} has no rollouts yet; train first")
        by_step = {int(path.stem.removeprefix("step-")): path for path in kept}
        step = max(by_step) if args.step is None else args.step
        if step not in by_step:
            raise SystemExit(f"error: no rollouts of step {step}; there are: {', '.join(map(str, sorted(by_step)))}")
        tasks = {t.id: t for t in train_tasks(config)}
        lines = by_step[step].read_text(encoding="utf-8").splitlines()
    for line in lines[: args.n]:
        record = json.loads(line)
        task = tasks[record["id"].rsplit("#", 1)[0]]
        print(f"\n{record['id']} ({task.kind}): {task.messages[-1]['content']}")
        for turn in record["turns"]:
            print(f"  policy: {turn['text']}")
            for response in turn["responses"]:
                print(f"  tool:   {response}")
        gold = " then ".join(json.dumps([c.to_json() for c in step]) for step in task.gold) or "no call"
        print(f"  gold:   {gold}")
        shown = {k: v for k, v in record["rewards"].items() if v not in (None, False)}
        texts = [f"{k} " + "/".join(f"{x:.3g}" for x in (v if isinstance(v, list) else [v])) for k, v in shown.items()]
        print("  rewards: " + ", ".join(texts) + f"; ended: {record['stop_reason']}")


if __name__ == "__main__":
    main()
