"""Shared-prefix packing: a group's prompt is computed once, each rollout attends to it and to itself.

A packed row holds, group after group, the prompt and then every completion of the group; position ids of a completion
go on where its prompt ended. Several groups share a row, and no mask over the whole row is ever built: attention works
group by group. The logits of prompt tokens and of tool responses are never computed. Scheme and code are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

#: Name under which the attention is registered with transformers.
ATTENTION = "slca"


@dataclass(frozen=True)
class PackedGroup:
    """Where a group lies in the row: the prompt at ``start``, then completions of ``lengths`` one after another.

    ``columns`` (n, T) int64 are row positions of the completions' tokens, padded with the group's first position;
    ``real`` (n, T) bool says which of them are tokens.
    """

    start: int
    prompt_length: int
    lengths: tuple[int, ...]
    columns: Tensor
    real: Tensor

    @property
    def prompt_end(self) -> int:
        return self.start + self.prompt_length


@dataclass(frozen=True)
class Packed:
    """One packed row.

    Attributes:
        input_ids, position_ids: (1, L) int64.
        groups: layout, in the order of the row.
        predictor: (N, T) int64: position whose hidden state predicts completion token j of rollout i.
        targets: (N, T) int64: that token; 0 where there is none.
    """

    input_ids: Tensor
    position_ids: Tensor
    groups: tuple[PackedGroup, ...]
    predictor: Tensor
    targets: Tensor


def pack(token_ids: Sequence[Sequence[int]], prompt_lengths: Sequence[int], groups: Sequence[int]) -> Packed:
    """Pack N rollouts; those with the same entry in ``groups`` must have the same prompt.

    Args:
        token_ids: prompt and completion of each rollout.
        prompt_lengths: prompt tokens of each, at least 1.
        groups: group of each; members need not be neighbours.

    Raises:
        ValueError: a prompt that is empty or differs within its group, naming the rollout.
    """
    members: dict[int, list[int]] = {}
    for i, g in enumerate(groups):
        members.setdefault(g, []).append(i)
    completions = [list(ids[n:]) for ids, n in zip(token_ids, prompt_lengths, strict=True)]
    width = max(1, *(len(c) for c in completions)) if completions else 1
    predictor = torch.zeros(len(completions), width, dtype=torch.long)
    targets = torch.zeros_like(predictor)
    row: list[int] = []
    positions: list[int] = []
    layout = []
    for g, rows in members.items():
        prompt = list(token_ids[rows[0]][: prompt_lengths[rows[0]]])
        start = len(row)
        row += prompt
        positions += range(len(prompt))
        last = len(row) - 1
        columns = torch.full((len(rows), max(1, *(len(completions[i]) for i in rows))), start)
        for k, i in enumerate(rows):
            own = list(token_ids[i][: prompt_lengths[i]])
            if not own or own != prompt:
                what = "is empty" if not own else f"differs from that of rollout {rows[0]} of the same group {g}"
                raise ValueError(f"the prompt of rollout {i} {what}")
            n, at = len(completions[i]), len(row)
            columns[k, :n] = torch.arange(at, at + n)
            predictor[i, :n] = torch.tensor([last, *range(at, at + n - 1)][:n], dtype=torch.long)
            targets[i, :n] = torch.tensor(completions[i], dtype=torch.long)
            row += completions[i]
            positions += range(len(prompt), len(prompt) + n)
        lengths = tuple(len(completions[i]) for i in rows)
        real = torch.arange(columns.shape[1]) < torch.tensor(lengths)[:, None]
        layout.append(PackedGroup(start, len(prompt), lengths, columns, real))
    return Packed(torch.tensor([row]), torch.tensor([positions]), tuple(layout), predictor, targets)


def prepare_model(model: Any) -> None:
    """Let the model attend over packed rows and over a ragged cache; without either it attends as with ``sdpa``."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, None]:
        packed, ragged = kwargs.pop("packed", None), kwargs.pop("ragged", None)
        if packed is not None:
            return packed_attention(query, key, value, packed, kwargs.get("scaling")), None
        if ragged is not None:
            out, _ = sdpa_attention_forward(module, ragged.padded(query), key, value, ragged.mask, **kwargs)
            return ragged.flat(out), None
        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return out, None

    AttentionInterface.register(ATTENTION, attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)


def packed_attention(query: Tensor, key: Tensor, value: Tensor, packed: Packed, scale: float | None) -> Tensor:
    """Attention output (1, L, heads, D) for query (1, heads, L, D) and key, value (1, kv heads, L, D)."""
    q, k, v = query[0], _repeat(key[0], query.shape[1]), _repeat(value[0], query.shape[1])
    parts = []
    for group in packed.groups:
        prompt = slice(group.start, group.prompt_end)
        own = scaled_dot_product_attention(
            q[None, :, prompt], k[None, :, prompt], v[None, :, prompt], is_causal=True, scale=scale
        )
        parts.append(own[0].transpose(0, 1))
        if any(group.lengths):
            parts.append(_completions(q, k, v, group, scale))
    return torch.cat(parts)[None]


def _completions(q: Tensor, k: Tensor, v: Tensor, group: PackedGroup, scale: float | None) -> Tensor:
    """(sum of lengths, heads, D): the completions of a group as a padded batch over the shared prompt."""
    columns = group.columns.to(q.device)
    n, width = columns.shape

    def with_prompt(x: Tensor) -> Tensor:
        shared = x[:, group.start : group.prompt_end].expand(n, -1, -1, -1)
        return torch.cat([shared, x[:, columns].transpose(0, 1)], dim=2)

    mask = torch.ones(width, group.prompt_length + width, dtype=torch.bool, device=q.device)
    mask = mask.tril(group.prompt_length)
    out = scaled_dot_product_attention(
        q[:, columns].transpose(0, 1), with_prompt(k), with_prompt(v), attn_mask=mask, scale=scale
    )
    return out.transpose(1, 2)[group.real.to(q.device)]


def _repeat(x: Tensor, heads: int) -> Tensor:
    """(kv heads, L, D) -> (heads, L, D); a single head is expanded without a copy."""
    if x.shape[0] == 1:
        return x.expand(heads, -1, -1)
    return x.repeat_interleave(heads // x.shape[0], dim=0)


def completion_logprobs(
    model: Any, packed: Packed, policy_mask: Tensor, temperature: float = 1.0, chunk: int = 2048
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of policy tokens and entropies of their distributions, (N, T) each, 0 off the mask.

    The LM head sees only the hidden states that predict policy tokens, ``chunk`` at a time, and is computed again in
    the backward pass, so the full logits never exist. Float32 (float64 for a float64 model); entropies carry no
    gradient.

    Args:
        policy_mask: (N, T) bool; T is the longest completion of ``packed``.
        temperature: the sampling temperature, so that these are log-probabilities of the sampling distribution.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    device = next(base.parameters()).device
    # A 4-D mask is handed through as it is; the packed attention does not look at it.
    unused = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    hidden = base.get_decoder()(
        input_ids=packed.input_ids.to(device),
        position_ids=packed.position_ids.to(device),
        attention_mask=unused,
        use_cache=False,
        packed=packed,
    ).last_hidden_state[0]
    head = base.get_output_embeddings()
    mask = policy_mask.to(device)
    states = hidden[packed.predictor.to(device)[mask]]
    targets = packed.targets.to(device)[mask]

    def part(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = head(x)
        logits = (logits if logits.dtype == torch.float64 else logits.float()) / temperature
        total = logits.logsumexp(-1)
        with torch.no_grad():
            entropy = total - ((logits - total[:, None]).exp() * logits).sum(-1)
        return logits.gather(-1, y[:, None]).squeeze(-1) - total, entropy

    dtype = hidden.dtype if hidden.dtype == torch.float64 else torch.float32
    logprobs = torch.zeros(mask.shape, dtype=dtype, device=device)
    entropies = torch.zeros_like(logprobs)
    if len(states):
        parts = [
            checkpoint(part, x, y, use_reentrant=False)
            for x, y in zip(states.split(chunk), targets.split(chunk), strict=True)
        ]
        # masked_scatter keeps the gradient, and fills in row-major order as the selection above reads.
        logprobs = logprobs.masked_scatter(mask, torch.cat([p[0] for p in parts]))
        entropies = entropies.masked_scatter(mask, torch.cat([p[1] for p in parts]).detach())
    return logprobs, entropies
