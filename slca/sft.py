"""Supervised warm start on demonstrations: the policy that every RL method starts from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slca.policy import Policy
from slca.rollout.agent import TextCodec
from slca.rollout.chat import END
from slca.tasks.cipher import Cipher
from slca.tasks.demonstrate import Noise, demonstrate
from slca.tasks.task import Task


@dataclass(frozen=True)
class Example:
    """One demonstration as tokens; ``policy_mask`` is True where the policy would have sampled the token."""

    token_ids: list[int]
    policy_mask: list[bool]


def encode_demonstration(
    task: Task, seed: int, noise: Noise, codec: TextCodec, cipher: Cipher | None = None
) -> Example:
    """The token sequence that a rollout with the demonstration's turns would have had, piece by piece.

    ``cipher`` puts the whole text into other words; what happens, and what the tools answer, stays the same.
    """
    demonstration = demonstrate(task, seed, noise)
    ids: list[int] = []
    mask: list[bool] = []

    def add(text: str, sampled: bool) -> None:
        piece = codec.encode(cipher.apply(text) if cipher else text)
        ids.extend(piece)
        mask.extend([sampled] * len(piece))

    add(codec.chat.prompt(task.messages, task.tools), sampled=False)
    for turn in demonstration.turns:
        add((codec.chat.call_turn(turn.calls) if turn.calls else turn.reply) + END, sampled=True)
        if turn.calls:
            add(codec.chat.after_turn([r.content for r in turn.responses]), sampled=False)
    return Example(ids, mask)


def batches(examples: Sequence[Example], tokens: int, seed: int) -> Iterator[list[Example]]:
    """One pass in random order, in batches of about ``tokens`` padded tokens and of similar length."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(examples), generator=generator).tolist()
    pool = 64 * max(1, tokens // 256)
    made: list[list[Example]] = []
    for start in range(0, len(order), pool):
        part = sorted((examples[i] for i in order[start : start + pool]), key=lambda e: len(e.token_ids))
        batch: list[Example] = []
        for example in part:
            if batch and (len(batch) + 1) * len(example.token_ids) > tokens:
                made.append(batch)
                batch = []
            batch.append(example)
        if batch:
            made.append(batch)
    for i in torch.randperm(len(made), generator=generator).tolist():
        yield made[i]


def lm_loss(policy: Policy, batch: Sequence[Example], context_weight: float) -> tuple[Tensor, float]:
    """Next-token loss, weight 1 on policy tokens and ``context_weight`` on all others, summed; and its weight.

    Rows are padded on the right: under causal attention no real token sees the padding, so no mask is needed.
    """
    length = max(len(e.token_ids) for e in batch)
    device = policy.device
    ids = torch.zeros(len(batch), length, dtype=torch.long, device=device)
    weight = torch.zeros(len(batch), length, device=device)
    for row, e in enumerate(batch):
        ids[row, : len(e.token_ids)] = torch.tensor(e.token_ids, device=device)
        mask = torch.tensor(e.policy_mask, device=device)
        weight[row, : len(e.token_ids)] = torch.where(mask, 1.0, context_weight)
    hidden = policy.model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    logits = policy.model.get_output_embeddings()(hidden).float()
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return (losses * weight[:, 1:].flatten()).sum(), float(weight[:, 1:].sum())


def make_optimizers(policy: Policy, lr: float, muon_lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms: about twice AdamW's progress per token."""
    matrices: list[Tensor] = []
    rest: list[Tensor] = []
    for name, p in policy.model.named_parameters():
        (matrices if p.ndim == 2 and "embed" not in name and "lm_head" not in name else rest).append(p)
    return [
        torch.optim.Muon(matrices, lr=muon_lr, weight_decay=0.01, momentum=0.95),
        torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def train_sft(
    policy: Policy,
    epochs: Callable[[int], Sequence[Example]],
    steps: int,
    batch_tokens: int = 8192,
    lr: float = 3e-3,
    muon_lr: float = 0.02,
    context_weight: float = 0.1,
    seed: int = 0,
    report: Callable[[dict[str, float]], None] = lambda _: None,
) -> dict[str, float]:
    """``steps`` optimiser steps with linear decay over the last 40 %; ``epochs(k)`` gives the k-th data set.

    Returns what was done: tokens, steps, seconds, smoothed loss.
    """
    optimizers = make_optimizers(policy, lr, muon_lr)
    peaks = [[g["lr"] for g in o.param_groups] for o in optimizers]
    policy.model.train()
    start, tokens, step, epoch, smooth = time.monotonic(), 0, 0, 0, math.nan
    while True:
        for batch in batches(epochs(epoch), batch_tokens, seed + epoch):
            progress = step / steps
            if step == steps:
                policy.model.eval()
                return {"tokens": tokens, "steps": step, "seconds": time.monotonic() - start, "loss": smooth}
            scale = min(1.0, (step + 1) / 50) * min(1.0, max(0.0, (1.0 - progress) / 0.4))
            for optimizer, peak in zip(optimizers, peaks, strict=True):
                for group, value in zip(optimizer.param_groups, peak, strict=True):
                    group["lr"] = value * scale
            loss, weight = lm_loss(policy, batch, context_weight)
            (loss / weight).backward()
            torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            value = loss.item() / weight
            smooth = value if math.isnan(smooth) else 0.98 * smooth + 0.02 * value
            step += 1
            tokens += sum(len(e.token_ids) for e in batch)
            if step % 50 == 0:
                done = {"step": step, "steps": steps, "epoch": epoch, "tokens": tokens, "loss": smooth}
                report({**done, "seconds": time.monotonic() - start})
        epoch += 1
