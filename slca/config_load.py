"""Configs from YAML that may inherit, with overrides; every mistake names its place and the mend."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from slca.config import Config, to_dict

PROFILES = Path(__file__).resolve().parent.parent / "experiments" / "configs"


class ConfigError(ValueError):
    """A config that cannot be used: file and line (or the override), field, what was given, and the mend."""


_POSITIVE = (
    "tasks.train_size", "rollout.group_size", "rollout.max_turns", "rollout.max_calls", "rollout.max_tokens",
    "rollout.max_context", "rollout.temperature", "rollout.max_rows", "rewards.verifier_votes", "train.steps",
    "train.prompts_per_step", "train.minibatch_prompts", "train.epochs", "train.microbatch_tokens", "train.lr",
    "train.clip_low", "train.clip_high", "train.max_grad_norm", "train.checkpoint_every", "train.threads",
    "eval.size_seen", "eval.temperature", "simulator.cache_entries", "simulator.max_tokens", "simulator.batch_size",
    "simulator.timeout", "simulator.concurrency", "simulator.breaker",
)  # fmt: skip
_NOT_NEGATIVE = (
    "seed", "train.kl_coef", "train.warmup_steps", "train.weight_decay", "rewards.judge_noise", "rewards.w_process",
    "rewards.w_summary", "eval.samples", "eval.size_unseen", "simulator.temperature", "simulator.retries",
    "simulator.cooldown", "train.diagnose_every",
)  # fmt: skip


def _choices() -> dict[str, Sequence[str]]:
    """Fields whose value is a name, with the names; imported late, since those modules are the library itself."""
    from slca.rewards.judge import JUDGES
    from slca.simulator.backends import BACKENDS
    from slca.simulator.options import MODES, ON_FAILURE

    return {
        "train.schedule": ("constant", "linear", "cosine"),
        "train.ratio": ("token", "sequence"),
        "train.loss_average": ("tokens", "constant"),
        "rewards.tool": ("process", "execution"),
        "rollout.engine": ("transformers",),
        "simulator.backend": list(BACKENDS),
        "simulator.mode": MODES,
        "simulator.on_failure": ON_FAILURE,
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
    from slca.simulator.faults import Faults
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
    try:
        Faults(config.simulator.faults)
    except ValueError as error:
        fail("simulator.faults", f"simulator.faults: {error}")
    if not 0 <= config.simulator.held_out < 1:
        fail("simulator.held_out", f"simulator.held_out is {config.simulator.held_out}; a share in [0, 1) is expected")
    if config.simulator.backend == "replay" and not config.simulator.recordings:
        fail("simulator.backend", "backend 'replay' needs simulator.recordings, a JSONL file of recorded calls")
    if config.simulator.backend == "openai" and not config.simulator.base_url:
        fail("simulator.backend", "backend 'openai' needs simulator.base_url, such as http://127.0.0.1:8000/v1")
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


# -- deriving ---------------------------------------------------------------------------------------------------


def from_dict(data: Mapping[str, Any], place: str = "config record") -> Config:
    """The config of ``to_dict``, checked as a file is; what is left out has its default. ``place`` is named in errors."""
    values: dict[str, tuple[Any, str]] = {}
    for key, value in data.items():
        if key in _sections() and isinstance(value, Mapping):
            for inner, leaf in value.items():
                _put(values, f"{key}.{inner}", leaf, place)
        else:
            _put(values, key, value, place)
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
