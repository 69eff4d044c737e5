"""The packed forward pass equals one padded row per rollout: values and gradients, three architectures."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from slca.packing import completion_logprobs, pack, prepare_model

SHAPE = {
    "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "tie_word_embeddings": True,
}  # fmt: skip
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, num_key_value_heads=1)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE, num_key_value_heads=2)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, num_key_value_heads=4, head_dim=16)),
}
#: (prompt length, completion lengths) of each group; one completion is empty, one group has one member.
GROUPS = [(7, [3, 5, 0]), (12, [9, 1, 4]), (4, [6])]


def make(name: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """A model with the packed attention and its twin with plain attention."""
    torch.manual_seed(0)
    plain = MODELS[name]().to(dtype)
    packed = copy.deepcopy(plain)
    prepare_model(packed)
    plain.set_attn_implementation("eager")
    return packed, plain


def data(seed: int = 0) -> tuple[list[list[int]], list[int], list[int], Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def tokens(n: int) -> list[int]:
        return torch.randint(0, 97, (n,), generator=generator).tolist()

    ids, lengths, groups = [], [], []
    for g, (n, completions) in enumerate(GROUPS):
        prompt = tokens(n)
        for t in completions:
            ids.append(prompt + tokens(t))
            lengths.append(n)
            groups.append(g)
    width = max(len(x) - n for x, n in zip(ids, lengths, strict=True))
    mask = torch.zeros(len(ids), width, dtype=torch.bool)
    for i, (x, n) in enumerate(zip(ids, lengths, strict=True)):
        mask[i, : len(x) - n] = torch.rand(len(x) - n, generator=generator) > 0.2
    weight = torch.randn(mask.shape, generator=generator, dtype=torch.float64)
    return ids, lengths, groups, mask, weight


def reference(model: Any, ids: list[list[int]], lengths: list[int], mask: Tensor, temperature: float) -> Tensor:
    """Log-probabilities (N, T) from one padded batch, full logits and all."""
    longest = max(map(len, ids))
    rows = torch.tensor([x + [0] * (longest - len(x)) for x in ids])
    attention = torch.tensor([[1] * len(x) + [0] * (longest - len(x)) for x in ids])
    logprobs = (model(input_ids=rows, attention_mask=attention).logits / temperature).log_softmax(-1)
    picked = logprobs[:, :-1].gather(-1, rows[:, 1:, None]).squeeze(-1)
    out = torch.zeros(mask.shape, dtype=logprobs.dtype)
    for i, (x, n) in enumerate(zip(ids, lengths, strict=True)):
        out[i, : len(x) - n] = picked[i, n - 1 : len(x) - 1]
    return torch.where(mask, out, torch.zeros_like(out))


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().norm() / b.detach().norm().clamp(min=1e-12))


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-5), (torch.float32, 1e-4)])
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_equal_the_padded_reference(name: str, dtype: torch.dtype, bound: float) -> None:
    model, plain = make(name, dtype)
    ids, lengths, groups, mask, weight = data()
    found, _ = completion_logprobs(model, pack(ids, lengths, groups), mask, temperature=0.7, chunk=5)
    expected = reference(plain, ids, lengths, mask, 0.7)
    assert found.dtype == dtype and relative(found, expected) < bound
    (found * weight).sum().backward()
    (expected * weight).sum().backward()
    for (key, p), q in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert relative(p.grad, q.grad) < bound, key


def test_gradient_checkpointing_changes_nothing() -> None:
    model, _ = make("qwen2", torch.float64)
    ids, lengths, groups, mask, weight = data()
    grads = []
    for on in (False, True):
        model.zero_grad()
        if on:
            model.gradient_checkpointing_enable()
        model.train()
        logprobs, _ = completion_logprobs(model, pack(ids, lengths, groups), mask)
        (logprobs * weight).sum().backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(*grads, strict=True))


def test_lora_adapters_get_the_same_gradients() -> None:
    from peft import LoraConfig, get_peft_model

    model, plain = make("llama", torch.float64)
    ids, lengths, groups, mask, weight = data()
    grads = []
    for base, own in ((model, True), (plain, False)):
        torch.manual_seed(1)
        adapted = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
        adapted = adapted.double()
        if own:
            logprobs, _ = completion_logprobs(adapted, pack(ids, lengths, groups), mask)
        else:
            logprobs = reference(adapted, ids, lengths, mask, 1.0)
        (logprobs * weight).sum().backward()
        grads.append([p.grad for p in adapted.parameters() if p.requires_grad])
    assert grads[0] and all(relative(a, b) < 1e-5 for a, b in zip(*grads, strict=True))


def test_order_and_interleaving_of_rollouts_do_not_matter() -> None:
    model, _ = make("llama", torch.float64)
    ids, lengths, groups, mask, _ = data()
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(3)).tolist()
    with torch.no_grad():
        found, entropy = completion_logprobs(model, pack(ids, lengths, groups), mask)
        shuffled = pack([ids[i] for i in order], [lengths[i] for i in order], [groups[i] for i in order])
        other, entropy2 = completion_logprobs(model, shuffled, mask[order])
    torch.testing.assert_close(other, found[order])
    torch.testing.assert_close(entropy2, entropy[order])


def test_other_rollouts_of_the_group_are_not_seen() -> None:
    model, _ = make("llama", torch.float64)
    ids, lengths, groups, mask, _ = data()
    with torch.no_grad():
        before, _ = completion_logprobs(model, pack(ids, lengths, groups), mask)
        ids[1] = ids[1][: lengths[1]] + [(t + 1) % 97 for t in ids[1][lengths[1] :]]
        after, _ = completion_logprobs(model, pack(ids, lengths, groups), mask)
    assert not torch.allclose(before[1], after[1])
    rest = [i for i in range(len(ids)) if i != 1]
    torch.testing.assert_close(before[rest], after[rest])


def test_entropy_is_that_of_the_distribution() -> None:
    model, plain = make("qwen3", torch.float64)
    ids, lengths, groups, mask, _ = data()
    with torch.no_grad():
        _, entropy = completion_logprobs(model, pack(ids, lengths, groups), mask, temperature=1.3)
        logits = plain(input_ids=torch.tensor([ids[6]])).logits[0] / 1.3
    expected = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)[lengths[6] - 1 : -1]
    here = mask[6, : len(expected)]
    torch.testing.assert_close(entropy[6, : len(expected)][here], expected[here])
    assert not entropy[~mask].any()


def test_nothing_to_train_gives_zeros() -> None:
    model, _ = make("llama", torch.float32)
    logprobs, entropy = completion_logprobs(model, pack([[1, 2]], [2], [0]), torch.zeros(1, 1, dtype=torch.bool))
    assert not logprobs.any() and not entropy.any()


def test_a_prompt_that_differs_or_is_empty_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt of rollout 1 differs"):
        pack([[1, 2, 3], [1, 4, 3]], [2, 2], [0, 0])
    with pytest.raises(ValueError, match="prompt of rollout 0 is empty"):
        pack([[1, 2]], [0], [0])
