"""One config tree: every field that decides a run, with its default. Reading it from YAML: ``slca.config_load``."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from slca.rewards.options import RewardConfig
from slca.rollout.options import Limits
from slca.simulator.options import SimulatorConfig


@dataclass(frozen=True)
class MethodConfig:
    name: str = "slca"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyConfig:
    """``checkpoint``: an embedded name or a folder; ``chat`` overrides the checkpoint's chat format."""

    checkpoint: str = "tiny-base"
    chat: str | None = None


@dataclass(frozen=True)
class TasksConfig:
    """``source``: ``generated`` or a JSONL file; ``kinds`` restricts generated tasks (empty: all)."""

    source: str = "generated"
    train_size: int = 4000
    train_seed: int = 1
    kinds: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RolloutConfig(Limits):
    """``max_rows``: rollouts that the engine samples at once (memory, not the result)."""

    engine: str = "transformers"
    group_size: int = 8
    temperature: float = 1.0
    max_rows: int = 128


@dataclass(frozen=True)
class TrainConfig:
    """Attributes:
    microbatch_tokens: packed tokens of one forward pass; threads: torch threads of the process.
    diagnose_every: steps between measurements of contamination and gradients (``slca.diagnostics``), 0 for none.
    ratio: importance ratio per ``token``, or per ``sequence`` (GSPO).
    loss_average: over the policy ``tokens`` of the mini-batch, or over a ``constant`` number, its rollouts times
        ``rollout.max_tokens`` (Dr.GRPO).
    """

    steps: int = 40
    prompts_per_step: int = 12
    minibatch_prompts: int = 6
    epochs: int = 1
    microbatch_tokens: int = 16384
    lr: float = 5e-4
    warmup_steps: int = 2
    schedule: str = "constant"
    weight_decay: float = 0.0
    betas: list[float] = field(default_factory=lambda: [0.9, 0.95])
    clip_low: float = 0.2
    clip_high: float = 0.2
    ratio: str = "token"
    loss_average: str = "tokens"
    kl_coef: float = 0.001
    max_grad_norm: float = 1.0
    checkpoint_every: int = 10
    diagnose_every: int = 10
    threads: int = 1


@dataclass(frozen=True)
class EvalConfig:
    """``samples``: sampled rollouts per task beside the greedy one."""

    size_seen: int = 200
    size_unseen: int = 200
    seed: int = 0
    samples: int = 2
    temperature: float = 1.0


@dataclass(frozen=True)
class MatrixConfig:
    """``methods``: label -> overrides (dotted field: value) of one arm."""

    methods: dict[str, Any] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])


@dataclass(frozen=True)
class Config:
    """Everything that decides a run. ``label`` names the arm, ``profile`` the file it came from."""

    profile: str = "tiny"
    label: str = "slca"
    seed: int = 0
    method: MethodConfig = field(default_factory=MethodConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    tasks: TasksConfig = field(default_factory=TasksConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    simulator: SimulatorConfig = field(default_factory=SimulatorConfig)
    rewards: RewardConfig = field(default_factory=RewardConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    matrix: MatrixConfig = field(default_factory=MatrixConfig)


#: Fields that do not change a run's numbers: they are not part of its hash.
OPERATIONAL = (
    "profile", "label", "seed", "matrix", "train.checkpoint_every", "train.diagnose_every", "simulator.cache",
    "simulator.cache_entries",
    "simulator.base_url", "simulator.api_key_env", "simulator.timeout", "simulator.retries", "simulator.concurrency",
    "simulator.breaker", "simulator.cooldown",
)  # fmt: skip


def to_dict(config: Config) -> dict[str, Any]:
    """Plain nested data, as it stands in a manifest."""
    return dataclasses.asdict(config)


def with_label(config: Config, label: str, seed: int) -> Config:
    """The config as it is, under another label and seed."""
    return dataclasses.replace(config, label=label, seed=seed)


def config_hash(config: Config) -> str:
    """8 hex digits over all that changes a run's numbers: the fields but ``OPERATIONAL``, and the start weights."""
    from slca.policy import checkpoint_digest

    data = to_dict(config)
    data["policy"]["digest"] = checkpoint_digest(config.policy.checkpoint)
    for key in OPERATIONAL:
        section, _, name = key.partition(".")
        if name:
            del data[section][name]
        else:
            del data[section]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
