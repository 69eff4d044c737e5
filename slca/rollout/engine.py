"""The transformers engine: batched sampling with ragged rows, each group's prompt prefilled once.

Rows of different lengths share one preallocated key/value cache and each writes at its own position, so no row is
ever padded on the left and a finished row simply leaves. The random numbers of a rollout depend on (seed, task,
sample, index of the token) alone, so its tokens do not depend on what else is in the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slca.packing import prepare_model
from slca.rollout.agent import Conversation, Sampling, answer_turns
from slca.rollout.ragged import Flat, RaggedCache


def uniforms(seed: int, task_id: str, sample: int, n: int) -> npt.NDArray[np.float64]:
    """(n,) float64 in [0, 1): the draws of one rollout, the same in every batch and on every machine."""
    digest = hashlib.blake2b(f"{seed}\x1f{task_id}\x1f{sample}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little"))).random(n)


def choose(logits: Tensor, sampling: Sampling, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Next tokens (n,) int64 and their log-probabilities (n,) float64 for logits (n, V) and draws (n,) in [0, 1).

    The inverse of the cumulative distribution is taken in float64; log-probabilities are those of the sampling
    distribution (temperature included; for greedy decoding, temperature 1).
    """
    scaled = logits.double() / (1.0 if sampling.greedy else sampling.temperature)
    logprobs = scaled.log_softmax(-1)
    if sampling.greedy:
        tokens = logits.argmax(-1)
    else:
        cumulative = logprobs.exp().cumsum(-1)
        target = draws[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, target, right=True).squeeze(-1).clamp(max=logits.shape[-1] - 1)
    return tokens, logprobs.gather(-1, tokens[:, None]).squeeze(-1)


class TransformersEngine:
    """Samples with a transformers causal LM; ``max_rows`` bounds the batch (memory), not the result."""

    def __init__(self, model: Any, max_rows: int = 128, feed_fraction: float = 0.2) -> None:
        self.model, self.max_rows, self.feed_fraction = model, max_rows, feed_fraction
        prepare_model(model)

    @torch.no_grad()
    def run(self, conversations: Sequence[Conversation], sampling: Sampling) -> None:
        was_training = self.model.training
        self.model.eval()
        try:
            for batch in self._batches([c for c in conversations if not c.done]):
                _Batch(self, batch, sampling).run()
        finally:
            self.model.train(was_training)

    def _batches(self, conversations: Sequence[Conversation]) -> Iterator[list[Conversation]]:
        """Whole groups up to ``max_rows``, so that a prompt is prefilled once; a larger group is cut."""
        batch: list[Conversation] = []
        for _, members in groupby(conversations, key=lambda c: c.task.id):
            group = list(members)
            if batch and len(batch) + len(group) > self.max_rows:
                yield batch
                batch = []
            while len(group) > self.max_rows:
                yield group[: self.max_rows]
                group = group[self.max_rows :]
            batch += group
        if batch:
            yield batch

    def forward(
        self, cache: RaggedCache, index: Tensor | None, pieces: Sequence[Sequence[int]], starts: Sequence[int]
    ) -> Tensor:
        """Feed ``pieces[i]`` to cache row ``index[i]`` (None: row i) from ``starts[i]`` on; logits (n, V) after each."""
        flat = Flat.of(pieces, starts, next(self.model.parameters()).device)
        cache.view(index, flat)
        hidden = self.model.get_decoder()(
            input_ids=flat.tokens,
            attention_mask=flat.mask,
            position_ids=flat.positions,
            cache=cache,
            use_cache=True,
            ragged=flat,
        ).last_hidden_state[0]
        return self.model.get_output_embeddings()(hidden[flat.last]).float()


class _Batch:
    """One batch of conversations on the way; rows leave when they are done."""

    def __init__(self, engine: TransformersEngine, conversations: list[Conversation], sampling: Sampling) -> None:
        self.engine, self.sampling = engine, sampling
        self.device = next(engine.model.parameters()).device
        self.rows = conversations
        limits = [c.limits for c in conversations]
        most = max(limit.max_turns * limit.max_tokens for limit in limits)
        self.draws = np.stack([uniforms(sampling.seed, c.task.id, c.sample, most) for c in conversations])
        self.capacity = max(limit.max_context for limit in limits) + 1
        self._prefill()

    def _prefill(self) -> None:
        prompts = [next(members) for _, members in groupby(self.rows, key=lambda c: c.task.id)]
        order = {c.task.id: i for i, c in enumerate(prompts)}
        self.cache = RaggedCache(len(prompts), self.capacity)
        logits = self._feed(None, [c.token_ids for c in prompts], [0] * len(prompts))
        index = torch.tensor([order[c.task.id] for c in self.rows], device=self.device)
        self.cache.keep(index)
        self.logits = logits[index]

    def _feed(self, index: list[int] | None, pieces: list[list[int]], starts: list[int]) -> Tensor:
        """Logits (n, V) after feeding each row its piece."""
        rows = None if index is None else torch.tensor(index, device=self.device)
        return self.engine.forward(self.cache, rows, pieces, starts)

    def run(self) -> None:
        ready = list(range(len(self.rows)))  # rows whose next-token logits are in self.logits
        waiting: list[int] = []  # rows whose turn is over and whose calls await their answers
        while ready or waiting:
            stepping = self._sample(ready, waiting)
            alive = stepping + waiting
            if not alive:
                return
            if len(alive) <= 0.75 * len(self.rows):
                stepping, waiting = self._compact(stepping, waiting)
            if stepping:
                self._step(stepping)
            ready = stepping
            # Answers are asked for and read in batches: when enough rows wait, or nothing else can be done.
            if waiting and (not stepping or len(waiting) >= self.engine.feed_fraction * len(self.rows)):
                ready = stepping + self._read(waiting)
                waiting = []

    def _sample(self, ready: list[int], waiting: list[int]) -> list[int]:
        """Draw one token for each ready row; rows that end a turn are added to ``waiting`` or are done."""
        if not ready:
            return []
        draws = torch.tensor(
            [self.draws[i, self.rows[i].n_sampled] for i in ready], dtype=torch.float64, device=self.device
        )
        logits = self.logits[torch.tensor(ready, device=self.device)]
        tokens, logprobs = choose(logits, self.sampling, draws)
        stepping = []
        for i, token, logprob in zip(ready, tokens.tolist(), logprobs.tolist(), strict=True):
            row = self.rows[i]
            row.append_sampled(token, logprob)
            if not row.turn_over:
                stepping.append(i)
                continue
            row.close_turn()
            if row.awaits:
                waiting.append(i)
        return stepping

    def _read(self, waiting: list[int]) -> list[int]:
        """Get the answers of the rows that wait and feed them; the rows that go on."""
        pieces = {}
        for i, glue in zip(waiting, answer_turns([self.rows[i] for i in waiting]), strict=True):
            if glue is not None:  # the last token of the turn has not been fed yet
                pieces[i] = self.rows[i].token_ids[-len(glue) - 1 :]
        if pieces:
            index = list(pieces)
            starts = [len(self.rows[i].token_ids) - len(pieces[i]) for i in index]
            self.logits[torch.tensor(index, device=self.device)] = self._feed(index, list(pieces.values()), starts)
        return list(pieces)

    def _step(self, stepping: list[int]) -> None:
        """Feed the token just drawn. Rows that wait or are done ride along (cheaper than gathering a part of the
        cache): they write where their next real token overwrites, or where nobody looks again."""
        tokens = [[row.token_ids[-1]] for row in self.rows]
        starts = [len(row.token_ids) - 1 for row in self.rows]
        logits = self._feed(None, tokens, starts)
        chosen = torch.tensor(stepping, device=self.device)
        self.logits[chosen] = logits[chosen]

    def _compact(self, stepping: list[int], waiting: list[int]) -> tuple[list[int], list[int]]:
        """Drop the rows that are done from cache, logits and bookkeeping."""
        alive = sorted([*stepping, *waiting])
        place = {old: new for new, old in enumerate(alive)}
        index = torch.tensor(alive, device=self.device)
        self.cache.keep(index)
        self.logits = self.logits[index]
        self.rows = [self.rows[i] for i in alive]
        self.draws = self.draws[alive]
        return [place[i] for i in stepping], [place[i] for i in waiting]
