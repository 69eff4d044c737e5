"""What the commands share: one cell of an experiment from config to finished record."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from baselines import make_method
from eval.in_domain import evaluate
from slca.assembly import make_engine, make_judge, make_simulator, test_tasks, train_tasks
from slca.config import Config, config_hash, with_label
from slca.config_load import ConfigError, for_arm, load_config
from slca.policy import Policy, load_policy
from slca.rewards.hierarchy import score
from slca.rollout.agent import Sampling, rollout_groups
from slca.rollout.rollout import Rollout
from slca.runs import Run
from slca.simulator.fidelity import measure_fidelity
from slca.simulator.metrics import lines
from slca.simulator.options import simulator_name
from slca.simulator.simulator import Simulator
from slca.tasks.task import Task
from slca.trainer import Trainer

#: Label of the record of the untrained start, which every method shares.
START = "sft"
RUNS = "runs"


def config_parser(description: str | None) -> argparse.ArgumentParser:
    """Arguments of every command that reads a config."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="tiny", help="name in experiments/configs, or the path of a YAML file")
    parser.add_argument(
        "--set", nargs="+", default=[], action="extend", metavar="KEY=VALUE",
        help="override fields of the config, e.g. --set train.lr=3e-4 train.steps=20",
    )  # fmt: skip
    parser.add_argument("--runs", type=Path, default=Path(RUNS), help=f"root of the run folders (default: {RUNS})")
    return parser


def read_config(args: argparse.Namespace) -> Config:
    """The config that the arguments name; a mistake in it ends the program with its text."""
    try:
        return load_config(args.profile, args.set)
    except ConfigError as error:
        raise SystemExit(f"error: {error}") from error


def cell_config(config: Config, label: str, seed: int) -> Config:
    """Config of one cell: a label of the matrix, or ``sft``."""
    if label == START:
        return with_label(config, START, config.matrix.seeds[0])
    try:
        return for_arm(config, label, seed)
    except ConfigError as error:
        raise SystemExit(f"error: {error}") from error


def open_run(config: Config, root: Path, varied: Sequence[str] = ()) -> Run:
    parts = {
        "judge": f"{config.rewards.judge} (noise {config.rewards.judge_noise:g} in training, 0 in evaluation)",
        "simulator": simulator_name(config.simulator),
        "engine": config.rollout.engine,
    }
    return Run.open(root, config, {"parts": parts, "varied": list(varied)})


def evaluate_policy(config: Config, policy: Policy, folder: Path, simulator: Simulator | None = None) -> dict[str, Any]:
    """In-domain evaluation as the config says; writes ``eval.jsonl`` into ``folder``.

    The judge's noise belongs to training, where it stands for the moods of a real judge; here it would only blur what
    is measured, so the same rubric judges without it.
    """
    engine, limits = make_engine(config, policy), config.rollout
    judge, rewards = make_judge(config, noise=0.0), config.rewards
    simulator = simulator or make_simulator(config)

    def rollouts(tasks: Sequence[Task], samples: int, greedy: bool, seed: int) -> list[list[Rollout]]:
        sampling = Sampling(0.0 if greedy else config.eval.temperature, seed)
        return rollout_groups(tasks, samples, engine, policy.codec, limits, sampling, simulator)

    return evaluate(
        rollouts, lambda task, rollout: score(task, rollout, judge, rewards), test_tasks(config), folder,
        samples=config.eval.samples, seed=config.eval.seed,
    )  # fmt: skip


def run_cell(
    config: Config,
    root: Path,
    varied: Sequence[str] = (),
    on_step: Callable[[int, dict[str, float]], None] = lambda step, record: None,
) -> Run:
    """Train and evaluate one cell; goes on where it stopped, does nothing when it is finished."""
    run = open_run(config, root, varied)
    with run:
        if run.finished:
            return run
        torch.set_num_threads(config.train.threads)
        began = time.monotonic()
        policy = load_policy(config.policy.checkpoint, config.policy.chat)
        simulator = make_simulator(config)
        trainer = None
        if config.label != START:
            trainer = Trainer(
                config, run, make_method(config.method.name, **config.method.options), policy, train_tasks(config),
                make_judge(config), config.rewards, make_engine(config, policy), simulator,
            )  # fmt: skip
            trainer.train(on_step)
        summary = evaluate_policy(config, policy, run.folder, simulator)
        if simulator.recordings.held_out:
            measure_fidelity(simulator, [*train_tasks(config), *test_tasks(config)])
        simulated = trainer.simulated() if trainer is not None else simulator.metrics.summary()
        for line in lines(simulated):
            print(line)
        run.finish({"eval": summary, "simulator": simulated}, seconds=time.monotonic() - began)
    return run


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


__all__ = [
    "START",
    "cell_config",
    "config_hash",
    "config_parser",
    "evaluate_policy",
    "open_run",
    "read_config",
    "run_cell",
]
