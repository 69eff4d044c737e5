"""The config tree: inheritance, overrides, the hash, and errors that name place and mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from slca.config import config_hash, to_dict, with_label
from slca.config_load import ConfigError, for_arm, from_dict, load_config, profile_path


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_tiny_profile_has_all_methods():
    config = load_config("tiny")
    assert list(config.matrix.methods) == ["grpo", "toolpo", "rltr", "slca"] and config.profile == "tiny"
    assert {for_arm(config, m, 0).method.name for m in config.matrix.methods} == set(config.matrix.methods)


def test_inheritance_and_overrides(tmp_path):
    write(tmp_path, "base.yaml", "train:\n  lr: 1.0e-3\n  steps: 7\nseed: 3\n")
    child = write(tmp_path, "child.yaml", "inherits: base.yaml\ntrain: {steps: 9}\n")
    config = load_config(child, ["train.lr=3e-4", "method.options.lambda_tool=2"])
    assert (config.train.steps, config.train.lr, config.seed, config.profile) == (9, 3e-4, 3, "child")
    assert config.method.options == {"lambda_tool": 2}


def test_dictionary_round_trip():
    config = for_arm(load_config("tiny", ["tasks.kinds=[single, choice]"]), "toolpo", 2)
    assert from_dict(to_dict(config)) == config


def test_hash_follows_what_changes_numbers_only():
    config = load_config("tiny")
    assert config_hash(config) == config_hash(load_config("tiny", ["train.checkpoint_every=3"]))
    assert config_hash(config) == config_hash(with_label(config, "other", 5))
    different = ["train.lr=1e-5", "rewards.judge_noise=0.25", "method.name=grpo", "tasks.train_seed=9", "train.threads=3"]
    hashes = {config_hash(load_config("tiny", [o])) for o in different}
    assert len(hashes | {config_hash(config)}) == len(different) + 1


def test_hash_follows_the_start_weights(tmp_path):
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"one")
    config = load_config("tiny", [f"policy.checkpoint={folder}"])
    first = config_hash(config)
    (folder / "model.safetensors").write_bytes(b"two")
    assert config_hash(config) != first


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("train.lrr=1", ["override 'train.lrr=1'", "'train.lrr'", "did you mean 'train.lr'"]),
        ("lr=1", ["did you mean 'train.lr'"]),
        ("train.steps=0", ["train.steps is 0", "greater than 0"]),
        ("train.steps=true", ["True (bool)", "int is expected"]),
        ("train.kl_coef=-1", ["must not be negative"]),
        ("train.lr=fast", ["'fast' (str)", "float is expected"]),
        ("train.lr=.nan", ["train.lr"]),
        ("method.name=slac", ["did you mean 'slca'"]),
        ("method.options.lambda_tol=1", ["method.options", "did you mean 'lambda_tool'"]),
        ("rewards.weights=papr", ["rewards.weights"]),
        ("rewards.judge=gpt", ["rewards.judge", "rubric"]),
        ("rewards.verifier_flip=1.5", ["verifier_flip", "[0, 1]"]),
        ("tasks.kinds=[singel]", ["did you mean 'single'"]),
        ("train.betas=[0.9]", ["two numbers"]),
        ("train.schedule=step", ["train.schedule is 'step'"]),
        ("matrix.seeds=[]", ["matrix.seeds"]),
        ("matrix.methods.sft={}", ["'sft' cannot be a label"]),
        ("train.steps", ["field=value"]),
        ("train.steps=[1", ["not YAML"]),
    ],
)
def test_a_wrong_override_is_named(override, parts):
    with pytest.raises(ConfigError) as caught:
        load_config("tiny", [override])
    for part in parts:
        assert part in str(caught.value)


def test_a_wrong_file_is_named_with_its_line(tmp_path):
    path = write(tmp_path, "a.yaml", "train:\n  steps: 5\n  lerning_rate: 2\n")
    with pytest.raises(ConfigError, match=r"a\.yaml:3: there is no field 'train\.lerning_rate'"):
        load_config(path)
    path = write(tmp_path, "b.yaml", "train:\n  steps: five\n")
    with pytest.raises(ConfigError, match=r"b\.yaml:2: train\.steps is 'five'"):
        load_config(path)
    for text in ("train: [", "- a\n- b\n", "train: {steps: !!python/object:os.system {}}"):
        with pytest.raises(ConfigError, match=r"c\.yaml"):
            load_config(write(tmp_path, "c.yaml", text))


def test_inheriting_in_a_circle_or_from_nothing_is_refused(tmp_path):
    write(tmp_path, "a.yaml", "inherits: b.yaml\n")
    with pytest.raises(ConfigError, match="inherits itself"):
        load_config(write(tmp_path, "b.yaml", "inherits: a.yaml\n"))
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        load_config(write(tmp_path, "c.yaml", "inherits: none.yaml\n"))


def test_an_unknown_profile_or_label_lists_what_exists():
    with pytest.raises(ConfigError, match="did you mean 'tiny'"):
        profile_path("tinny")
    with pytest.raises(ConfigError, match="did you mean 'toolpo'"):
        for_arm(load_config("tiny"), "tolpo", 0)


@pytest.mark.parametrize("option, wanted", [
    ("lambda_sum=abc", "float is expected"), ("lambda_sum=true", "float is expected"), ("boundary=1", "str is expected"),
    ("scale_by_std=1", "bool is expected"),
])  # fmt: skip
def test_options_of_a_method_have_a_type(option: str, wanted: str) -> None:
    with pytest.raises(ConfigError, match=f"option {option.partition('=')[0]} of method 'slca' .*{wanted}"):
        load_config("tiny", [f"method.options.{option}"])


def test_backend_replay_needs_recordings() -> None:
    with pytest.raises(ConfigError, match="replay.*simulator.recordings"):
        load_config("tiny", ["simulator.backend=replay"])
