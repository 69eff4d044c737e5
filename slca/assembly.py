"""From a config to the parts it names: the one place where names in the YAML become objects."""

from __future__ import annotations

from collections.abc import Sequence

from slca.config import Config
from slca.policy import Policy
from slca.rewards.judge import JUDGES, Judge
from slca.rollout.agent import Engine
from slca.rollout.engine import TransformersEngine
from slca.simulator.simulator import Simulator
from slca.tasks.generate import generate
from slca.tasks.io import load_jsonl
from slca.tasks.task import Task

ENGINES = {"transformers": TransformersEngine}


def make_engine(config: Config, policy: Policy) -> Engine:
    return ENGINES[config.rollout.engine](policy.model, max_rows=config.rollout.max_rows)


def make_simulator(config: Config) -> Simulator:
    return Simulator(config.simulator)


def make_judge(config: Config, noise: float | None = None) -> Judge:
    """The judge that the config names; ``noise`` in place of the config's."""
    r = config.rewards
    return JUDGES[r.judge](noise=r.judge_noise if noise is None else noise, seed=r.judge_seed)


def train_tasks(config: Config) -> list[Task]:
    t = config.tasks
    if t.source == "generated":
        return generate(t.train_size, "train", t.train_seed, t.kinds or None)
    return load_jsonl(t.source)


def test_tasks(config: Config) -> Sequence[Task]:
    """Seen tools first, then unseen ones; the same tasks for every run of a profile."""
    e = config.eval
    return [*generate(e.size_seen, "test_seen", e.seed), *generate(e.size_unseen, "test_unseen", e.seed)]
