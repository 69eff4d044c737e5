"""What the simulator answers, and how fast: many calls of many tools, cold and warm, in one and in four processes.

    python -m benchmarks.simulator                  # the schema backend
    python -m benchmarks.simulator --backend llm    # the embedded SmolLM2-135M (about 10 minutes for 1,000 calls)

Cold: an empty cache. Warm: the same calls again in fresh episodes. Group: 8 rollouts in each of 4 processes make the
same calls, arguments in another order, against one cache file; all answers must be byte-equal.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from slca.simulator.metrics import lines
from slca.simulator.options import SimulatorConfig
from slca.simulator.simulator import Simulator
from slca.simulator.toolset import Toolset
from slca.tasks.generate import generate
from slca.tasks.task import Call, Task


def calls_of(n: int, seed: int) -> list[tuple[Task, Call]]:
    """``n`` different calls, evenly over as many tools as there are."""
    by_tool: dict[str, list[tuple[Task, Call]]] = {}
    seen: set[str] = set()
    for split in ("train", "test_unseen"):
        for task in generate(8 * n, split, seed):
            for step in task.gold[:1]:
                for call in step:
                    key = json.dumps([call.name, call.arguments], sort_keys=True)
                    if key not in seen and call.name in {t["function"]["name"] for t in task.tools}:
                        seen.add(key)
                        by_tool.setdefault(call.name, []).append((task, call))
    found: list[tuple[Task, Call]] = []
    for turn in range(max(map(len, by_tool.values()))):
        found += [own[turn] for own in by_tool.values() if turn < len(own)]
    if len(found) < n:
        raise SystemExit(f"only {len(found)} different calls; ask for fewer with --n")
    return found[:n]


def answer_all(simulator: Simulator, calls: list[tuple[Task, Call]], rng: random.Random | None = None) -> list[str]:
    """Contents of the answers, every call in an episode of its own; with ``rng``, arguments in another order."""
    asked = []
    for task, call in calls:
        items = list(call.arguments.items())
        if rng is not None:
            rng.shuffle(items)
        asked.append((simulator.episodes(task, 1)[0], call.name, dict(items)))
    return [r.content for r in simulator.call_batch(asked)]


def valid(calls: list[tuple[Task, Call]], contents: list[str]) -> int:
    return sum(
        Toolset(task.tools, task.returns)[call.name].fits(json.loads(content))
        for (task, call), content in zip(calls, contents, strict=True)
    )


def group_member(config: SimulatorConfig, n: int, seed: int, rollout: int) -> list[str]:
    return answer_all(Simulator(config), calls_of(n, seed), random.Random(rollout))


def warm_rate(simulator: Simulator, calls: list[tuple[Task, Call]]) -> float:
    """Calls per second when all answers are known, one at a time as a rollout makes them, episodes made before."""
    asked = [(simulator.episodes(task, 1)[0], c.name, c.arguments) for task, c in calls for _ in range(10)]
    began = time.perf_counter()
    for episode, name, arguments in asked:
        simulator.call(episode, name, arguments)
    return len(asked) / (time.perf_counter() - began)


def validation_rate(calls: list[tuple[Task, Call]]) -> float:
    """Valid and invalid calls checked per second."""
    asked = []
    for task, call in calls:
        tool = Toolset(task.tools, task.returns)[call.name]
        asked += [(tool, call.arguments), (tool, {**call.arguments, "nonsense": 1})]
    for tool, arguments in asked:
        tool.compiled.errors(arguments)
    began = time.perf_counter()
    for _ in range(10):
        for tool, arguments in asked:
            tool.compiled.errors(arguments)
    return 10 * len(asked) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000, help="calls")
    parser.add_argument("--seed", type=int, default=0)
    for name in ("backend", "model", "base_url"):
        parser.add_argument("--" + name.replace("_", "-"), default=getattr(SimulatorConfig, name))
    parser.add_argument("--batch-size", type=int, default=SimulatorConfig.batch_size)
    parser.add_argument("--temperature", type=float, default=SimulatorConfig.temperature)
    args = parser.parse_args()
    calls = calls_of(args.n, args.seed)
    print(f"{len(calls)} different calls of {len({c.name for _, c in calls})} tools; backend {args.backend}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {k: v for k, v in vars(args).items() if k not in ("n", "seed")}
        config = SimulatorConfig(**options, cache=str(Path(folder) / "cache.sqlite"))
        simulator = Simulator(config)
        began = time.perf_counter()
        first: list[str] = []
        for at in range(0, len(calls), 100):
            first += answer_all(simulator, calls[at : at + 100])
            done, seconds = len(first), time.perf_counter() - began
            print(f"  cold: {done} calls, {done / seconds:.2f}/s", end="\r", flush=True)
        print(f"cold: {len(calls) / (time.perf_counter() - began):.2f} calls/s, {valid(calls, first)} of {len(calls)} valid")
        fresh = simulator.metrics.counts["fresh"]
        second = answer_all(simulator, calls)
        hits = simulator.metrics.counts["cache_hits"]
        print(f"second pass: {hits} cache hits of {len(calls)}, {sum(map(str.__eq__, first, second))} byte-equal answers")
        assert fresh == simulator.metrics.counts["fresh"]
        print(f"warm: {warm_rate(simulator, calls):.0f} calls/s in one process")
        print(f"validation: {validation_rate(calls):.0f} calls/s")
        print("\n".join(lines(simulator.metrics.summary())))
        few = min(args.n, 40 if args.backend == "llm" else 200)
        shared = SimulatorConfig(**options, cache=str(Path(folder) / "group.sqlite"))
        with multiprocessing.get_context("spawn").Pool(4) as pool:
            rollouts = pool.starmap(group_member, [(shared, few, args.seed, r) for r in range(8)], chunksize=2)
        equal = all(contents == rollouts[0] for contents in rollouts)
        print(f"group: 8 rollouts in 4 processes, {few} calls each, arguments shuffled: byte-equal {equal}")
        if not equal:
            raise SystemExit("answers differ")


if __name__ == "__main__":
    main()
