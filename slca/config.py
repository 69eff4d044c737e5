"""One config tree: dataclasses, filled from YAML that may inherit, with overrides; every mistake names its place."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PROFILES = Path(__file__).resolve().parent.parent / "experiments" / "configs"


class ConfigError(ValueError):
    """A config that cannot be used: file and line (or the override), field, what was given, and the mend."""


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
class RolloutConfig:
    engine: str = "transformers"
    group_size: int = 8
    max_turns: int = 4
    max_calls: int = 8
    max_tokens: int = 96
    max_context: int = 768
    temperature: float = 1.0
    max_rows: int = 128


@dataclass(frozen=True)
class SimulatorConfig:
    backend: str = "schema"


@dataclass(frozen=True)
class RewardsConfig:
    weights: str | dict[str, Any] = "paper"
    w_process: float = 1.0
    w_summary: float = 1.0
    no_call_score: float = -0.5
    abstention: bool = False
    verifier_votes: int = 3
    verifier_flip: float = 0.0
    judge: str = "rubric"
    judge_noise: float = 0.0
    judge_seed: int = 0


@dataclass(frozen=True)
class TrainConfig:
    """``microbatch_tokens``: packed tokens of one forward pass; ``threads``: torch threads of the process."""

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
    kl_coef: float = 0.001
    max_grad_norm: float = 1.0
    checkpoint_every: int = 10
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
    rewards: RewardsConfig = field(default_factory=RewardsConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    matrix: MatrixConfig = field(default_factory=MatrixConfig)


#: Fields that do not change a run's numbers: they are not part of its hash.
OPERATIONAL = ("profile", "label", "seed", "matrix", "train.checkpoint_every")

_POSITIVE = (
    "tasks.train_size", "rollout.group_size", "rollout.max_turns", "rollout.max_calls", "rollout.max_tokens",
    "rollout.max_context", "rollout.temperature", "rollout.max_rows", "rewards.verifier_votes", "train.steps",
    "train.prompts_per_step", "train.minibatch_prompts", "train.epochs", "train.microbatch_tokens", "train.lr",
    "train.clip_low", "train.clip_high", "train.max_grad_norm", "train.checkpoint_every", "train.threads",
    "eval.size_seen", "eval.size_unseen", "eval.temperature",
)  # fmt: skip
_NOT_NEGATIVE = (
    "seed", "train.kl_coef", "train.warmup_steps", "train.weight_decay", "rewards.judge_noise", "rewards.w_process",
    "rewards.w_summary", "eval.samples",
)  # fmt: skip


def _choices() -> dict[str, Sequence[str]]:
    """Fields whose value is a name, with the names; imported late, since those modules are the library itself."""
    from slca.rewards.judge import JUDGES
    from slca.simulator.simulator import BACKENDS

    return {
        "train.schedule": ("constant", "linear", "cosine"),
        "rollout.engine": ("transformers",),
        "simulator.backend": list(BACKENDS),
        "rewards.judge": list(JUDGES),
        "policy.chat": ("hermes", "compact"),
    }


# -- reading ----------------------------------------------------------------------------------------------------


def profile_path(name: str | Path) -> Path:
    """File of a profile's name, or the path itself if it is one."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        return path
    path = PROFILES / f"{name}.yaml"
    if not path.is_file():
        known = sorted(p.stem for p in PROFILES.glob("*.yaml"))
        raise ConfigError(f"no profile {str(name)!r}{_nearest(str(name), known)}")
    return path


def load_config(profile: str | Path = "tiny", overrides: Sequence[str] = ()) -> Config:
    """Config of a profile (name or YAML file) with overrides such as ``train.lr=3e-4``.

    Raises:
        ConfigError: see there.
    """
    path = profile_path(profile)
    values: dict[str, tuple[Any, str]] = {}
    _read(path, values, ())
    values.setdefault("profile", (path.stem, str(path)))
    for text in overrides:
        key, sep, raw = text.partition("=")
        if not sep:
            raise ConfigError(f"override {text!r}: write it as field=value")
        try:
            value = yaml.safe_load(raw)
        except yaml.YAMLError as error:
            raise ConfigError(f"override {text!r}: the value is not YAML ({error})") from None
        _put(values, key.strip(), value, f"override {text!r}")
    return _build(values)


def _read(path: Path, values: dict[str, tuple[Any, str]], chain: tuple[Path, ...]) -> None:
    """Leaves of a file as dotted key -> (value, place), those it inherits first."""
    path = path.resolve()
    if path in chain:
        raise ConfigError(f"{path}: inherits itself ({' -> '.join(p.name for p in (*chain, path))})")
    shown = _shown(path)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{shown}: not YAML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read ({error.strerror}); it is named by `inherits` or --profile") from None
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{shown}:1: a mapping of sections is expected")
    for key_node, node in root.value:
        if key_node.value == "inherits":
            _read(path.parent / node.value, values, (*chain, path))
    for key_node, node in root.value:
        if key_node.value != "inherits":
            _leaves(str(key_node.value), key_node, node, shown, values)


def _leaves(key: str, key_node: Any, node: Any, shown: str, values: dict[str, tuple[Any, str]]) -> None:
    place = f"{shown}:{key_node.start_mark.line + 1}"
    if key in _sections() and isinstance(node, yaml.MappingNode):
        for inner, value in node.value:
            _leaves(f"{key}.{inner.value}", inner, value, shown, values)
        return
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node, deep=True)
    except yaml.YAMLError as error:
        raise ConfigError(f"{place}: {key}: {error}") from None
    _put(values, key, value, place)


def _put(values: dict[str, tuple[Any, str]], key: str, value: Any, place: str) -> None:
    """Check one field and keep it; a field below a mapping (``method.options.x``) is put into it."""
    known = _fields()
    if key in known:
        values[key] = (_checked(key, value, known[key], place), place)
        return
    parent, _, name = key.rpartition(".")
    if parent in known and known[parent][0] is dict:
        mapping = {**values.get(parent, ({}, place))[0], name: value}
        values[parent] = (mapping, place)
        return
    raise ConfigError(f"{place}: there is no field {key!r}{_nearest(key, list(known))}")


def _build(values: Mapping[str, tuple[Any, str]]) -> Config:
    tree: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for key, (value, _) in values.items():
        section, _, name = key.partition(".")
        if name:
            tree.setdefault(section, {})[name] = value
        else:
            top[section] = value
    config = Config(**top, **{section: _sections()[section](**own) for section, own in tree.items()})
    _check_whole(config, lambda key: values[key][1] if key in values else "defaults")
    return config


# -- checking ---------------------------------------------------------------------------------------------------


def _sections() -> dict[str, Any]:
    return {f.name: f.default_factory for f in dataclasses.fields(Config) if dataclasses.is_dataclass(f.default_factory)}


def _fields() -> dict[str, tuple[type, ...]]:
    """Dotted field -> types it may have (None for an optional one)."""
    found: dict[str, tuple[type, ...]] = {}
    for name, hint in typing.get_type_hints(Config).items():
        if dataclasses.is_dataclass(hint):
            for inner, inner_hint in typing.get_type_hints(hint).items():
                found[f"{name}.{inner}"] = _types(inner_hint)
        else:
            found[name] = _types(hint)
    return found


def _types(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, types.UnionType):
        return tuple(t for part in typing.get_args(hint) for t in _types(part))
    return (typing.get_origin(hint) or hint,)


def _checked(key: str, value: Any, allowed: tuple[type, ...], place: str) -> Any:
    value = _number(value, allowed)
    if not any(type(value) is t for t in allowed):
        wanted = " or ".join("nothing" if t is type(None) else t.__name__ for t in allowed)
        raise ConfigError(f"{place}: {key} is {value!r} ({type(value).__name__}); {wanted} is expected")
    if key in _POSITIVE and not value > 0:
        raise ConfigError(f"{place}: {key} is {value!r}; it must be greater than 0")
    if key in _NOT_NEGATIVE and not value >= 0:
        raise ConfigError(f"{place}: {key} is {value!r}; it must not be negative")
    names = _choices().get(key)
    if names is not None and value is not None and value not in names:
        raise ConfigError(f"{place}: {key} is {value!r}{_nearest(str(value), list(names))}")
    if isinstance(value, float) and value != value:
        raise ConfigError(f"{place}: {key} is not a number")
    return value


def _number(value: Any, allowed: tuple[type, ...]) -> Any:
    """An int where a float is expected, and 3e-4, which YAML 1.1 reads as text."""
    if float in allowed and type(value) is int:
        return float(value)
    if float in allowed and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    if list in allowed and isinstance(value, tuple):
        return list(value)
    return value


def _check_whole(config: Config, place: Callable[[str], str]) -> None:
    """What one field alone does not show."""
    from baselines import make_method
    from slca.rewards.process import make_weights
    from slca.tasks.task import KINDS

    def fail(key: str, text: str) -> None:
        raise ConfigError(f"{place(key)}: {text}")

    try:
        make_method(config.method.name, **config.method.options)
    except (ValueError, TypeError) as error:
        key = "method.options" if config.method.options and "option" in str(error) else "method.name"
        fail(key, f"{key}: {error}")
    try:
        make_weights(config.rewards.weights)
    except (ValueError, TypeError) as error:
        fail("rewards.weights", str(error))
    if unknown := [k for k in config.tasks.kinds if k not in KINDS]:
        fail("tasks.kinds", f"tasks.kinds has {unknown[0]!r}{_nearest(str(unknown[0]), list(KINDS))}")
    betas = config.train.betas
    if len(betas) != 2 or not all(isinstance(b, float | int) and 0 <= b < 1 for b in betas):
        fail("train.betas", f"train.betas is {betas!r}; two numbers in [0, 1) are expected")
    if not 0 <= config.rewards.verifier_flip <= 1:
        fail("rewards.verifier_flip", f"rewards.verifier_flip is {config.rewards.verifier_flip}; a chance is in [0, 1]")
    if config.train.clip_low >= 1:
        fail("train.clip_low", f"train.clip_low is {config.train.clip_low}; the ratio 1 - clip_low must stay positive")
    if not config.matrix.seeds or not all(type(s) is int and s >= 0 for s in config.matrix.seeds):
        fail("matrix.seeds", f"matrix.seeds is {config.matrix.seeds!r}; a list of integers from 0 is expected")
    for label, arm in config.matrix.methods.items():
        if not isinstance(arm, dict):
            fail("matrix.methods", f"matrix.methods.{label} is {arm!r}; a mapping of field: value is expected")
        if label == "sft" or not all(c.isalnum() or c in "_.-" for c in label):
            fail("matrix.methods", f"matrix.methods: {label!r} cannot be a label (letters, digits, '_.-'; not 'sft')")


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if not near:
        tail = word.rpartition(".")[2]
        near = [k for k in known if k.rpartition(".")[2] == tail][:1]
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


# -- using ------------------------------------------------------------------------------------------------------


def to_dict(config: Config) -> dict[str, Any]:
    """Plain nested data, as it stands in a manifest."""
    return dataclasses.asdict(config)


def from_dict(data: Mapping[str, Any]) -> Config:
    """The config of ``to_dict``, checked as a file is."""
    values: dict[str, tuple[Any, str]] = {}
    for key, value in data.items():
        if key in _sections() and isinstance(value, Mapping):
            for inner, leaf in value.items():
                _put(values, f"{key}.{inner}", leaf, "config record")
        else:
            _put(values, key, value, "config record")
    return _build(values)


def for_arm(config: Config, label: str, seed: int) -> Config:
    """Config of one cell of the matrix: the arm's overrides, its label, the seed."""
    methods = config.matrix.methods
    if label not in methods:
        raise ConfigError(f"no method {label!r} in the matrix of profile {config.profile!r}{_nearest(label, list(methods))}")
    values: dict[str, tuple[Any, str]] = {}
    for section, own in to_dict(config).items():
        leaves = {f"{section}.{k}": v for k, v in own.items()} if section in _sections() else {section: own}
        for key, value in leaves.items():
            values[key] = (value, f"profile {config.profile}")
    for key, value in methods[label].items():
        _put(values, key, value, f"matrix.methods.{label} of profile {config.profile}")
    _put(values, "label", label, "label")
    _put(values, "seed", seed, "seed")
    return _build(values)


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
