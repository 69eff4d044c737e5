"""Policies on disk, the tokenizer, and the warm start's encoding of demonstrations."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from helpers import random_policy

from slca.policy import ASSETS, checkpoint_digest, load_policy, resolve_checkpoint, save_policy
from slca.rollout.agent import Sampling, rollout_groups
from slca.rollout.chat import SPECIAL_TOKENS
from slca.rollout.engine import TransformersEngine
from slca.rollout.options import Limits
from slca.sft import batches, encode_demonstration, lm_loss, train_sft
from slca.tasks.cipher import make_cipher
from slca.tasks.demonstrate import Noise, demonstrate
from slca.tasks.generate import generate

TASKS = generate(40, "train", 8)


def test_a_saved_policy_is_the_same_policy(tmp_path: Path) -> None:
    policy = random_policy()
    save_policy(policy, tmp_path / "p", {"note": 1})
    loaded = load_policy(tmp_path / "p")
    assert loaded.chat == "compact" and loaded.n_parameters() == policy.n_parameters()
    for a, b in zip(policy.model.state_dict().values(), loaded.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    text = "Book BK-4821 <tool_call> für Zoë\n"
    assert loaded.codec.encode(text) == policy.codec.encode(text) and loaded.codec.decode(loaded.codec.encode(text)) == text
    assert json.loads((tmp_path / "p" / "slca.json").read_text()) == {"chat": "compact", "note": 1}
    assert not list((tmp_path / "p").glob("*.bin"))


def test_a_missing_checkpoint_says_what_there_is() -> None:
    with pytest.raises(FileNotFoundError, match=r"tiny-base.*make tiny-base"):
        load_policy("nowhere")
    assert checkpoint_digest("nowhere") is None


def test_the_embedded_policy_is_small_and_says_where_it_comes_from() -> None:
    policy = load_policy("tiny-base")
    folder = Path(__file__).parent.parent / "slca" / "assets" / "tiny-base"
    assert sum(f.stat().st_size for f in folder.iterdir()) < 8_000_000
    manifest = json.loads((folder / "slca.json").read_text())
    assert manifest["made_by"] == "experiments.tiny_base" and manifest["training"]["tokens"] > 1_000_000
    assert 1_000_000 < policy.n_parameters() < 3_000_000
    tokenizer = policy.codec.tokenizer
    for token in SPECIAL_TOKENS:
        assert policy.codec.encode(token) == [tokenizer.convert_tokens_to_ids(token)]
    for n in range(100):
        assert len(policy.codec.encode(f"{n:02d}")) == 1
    assert len(policy.codec.encode("BK-4821")) <= 5


def test_the_embedded_policy_knows_the_task_and_leaves_something_to_gain() -> None:
    from slca.rewards.hierarchy import score
    from slca.rewards.judge import RubricJudge
    from slca.rewards.options import RewardConfig

    policy = load_policy("tiny-base")
    tasks = [t for t in generate(120, "test_seen", 5) if t.needs_call]
    limits, sampling = Limits(4, 8, 112, 640), Sampling(1.0, 0)
    groups = rollout_groups(tasks, 1, TransformersEngine(policy.model), policy.codec, limits, sampling)
    found = [score(t, g[0], RubricJudge(), RewardConfig()) for t, g in zip(tasks, groups, strict=True)]
    assert 0.2 <= sum(b.success for b in found) / len(found) <= 0.6


def test_a_demonstration_is_encoded_as_the_rollout_it_could_have_been() -> None:
    policy = random_policy()
    codec = policy.codec
    for task in TASKS[:10]:
        example = encode_demonstration(task, 0, Noise(), codec)
        prompt = codec.encode(codec.chat.prompt(task.messages, task.tools))
        assert example.token_ids[: len(prompt)] == prompt and not any(example.policy_mask[: len(prompt)])
        sampled = codec.decode([t for t, m in zip(example.token_ids, example.policy_mask, strict=True) if m])
        turns = demonstrate(task, 0, Noise()).turns
        texts = [(codec.chat.call_turn(t.calls) if t.calls else t.reply) + "<|im_end|>" for t in turns]
        assert sampled == "".join(texts)


def test_a_demonstration_in_cipher_is_in_other_words_throughout() -> None:
    codec = random_policy().codec
    task = next(t for t in TASKS if t.kind == "dependent")
    cipher = make_cipher(task, random.Random(0), share=1.0)
    plain = encode_demonstration(task, 0, Noise(), codec)
    text = codec.decode(encode_demonstration(task, 0, Noise(), codec, cipher).token_ids)
    assert text == cipher.apply(codec.decode(plain.token_ids))
    for tool in task.tools:
        assert f"{tool['function']['name']}(" not in text
    assert f'"name": "{cipher.apply(task.gold[0][0].name)}"' in text


def test_batches_hold_every_example_once_and_keep_to_the_budget() -> None:
    codec = random_policy().codec
    examples = [encode_demonstration(t, 0, Noise(), codec) for t in TASKS]
    made = list(batches(examples, 2000, 0))
    assert sorted(id(e) for b in made for e in b) == sorted(id(e) for e in examples)
    for batch in made:
        assert len(batch) == 1 or len(batch) * max(len(e.token_ids) for e in batch) <= 2000
    assert [len(b) for b in made] != [len(b) for b in batches(examples, 2000, 1)] or made != list(batches(examples, 2000, 1))


def test_the_loss_weighs_policy_and_context_tokens() -> None:
    policy = random_policy()
    example = encode_demonstration(TASKS[0], 0, Noise(), policy.codec)
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([example.token_ids])).logits[0].double()
        losses = -logits[:-1].log_softmax(-1).gather(-1, torch.tensor(example.token_ids[1:])[:, None]).squeeze(-1)
        weight = torch.tensor([1.0 if m else 0.25 for m in example.policy_mask[1:]], dtype=torch.float64)
        total, weights = lm_loss(policy, [example, example], 0.25)
    assert total.item() == pytest.approx(2 * float((losses * weight).sum()), rel=1e-4)
    assert weights == pytest.approx(2 * float(weight.sum()))


def test_training_lowers_the_loss() -> None:
    policy = random_policy()
    examples = [encode_demonstration(t, 0, Noise(), policy.codec) for t in TASKS[:8]]
    seen: list[float] = []
    done = train_sft(policy, lambda k: examples, 100, 4000, report=lambda r: seen.append(r["loss"]))
    assert done["steps"] == 100 and len(seen) == 2 and seen[1] < seen[0]


def test_a_model_of_the_hub_is_fetched_by_name_without_pickles(tmp_path, monkeypatch):
    asked = []

    def download(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(ASSETS / "tiny-base")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert resolve_checkpoint("some-owner/some.model-1") == ASSETS / "tiny-base"
    assert asked[0][0] == "some-owner/some.model-1" and not any("bin" in p or p == "*" for p in asked[0][1])

    def refuse(name, allow_patterns):
        raise OSError("offline")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(FileNotFoundError, match="no folder 'a/b', and the Hub .*OSError: offline.*HF_HUB_OFFLINE"):
        resolve_checkpoint("a/b")
    (tmp_path / "own").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no config.json there"):
        resolve_checkpoint(str(tmp_path / "own"))
