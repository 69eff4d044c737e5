"""The backend ``llm``: a causal LM in this process plays the tools, decoding under the response schema.

Rows of a batch share the prompt of their tool, write at their own pace and leave when they are done. Text that the
grammar leaves no choice about (names of fields, brackets) is not sampled but fed as it is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slca.rollout.agent import Sampling
from slca.rollout.chat import END
from slca.rollout.engine import TransformersEngine, choose, uniforms
from slca.rollout.ragged import RaggedCache
from slca.simulator.backends import Draft, Request
from slca.simulator.grammar import grammar_schema
from slca.simulator.jsonvalue import canonical
from slca.simulator.options import SimulatorConfig
from slca.simulator.prompt import prompt_ids

#: Compact JSON with a blank after comma and colon, as the policy sees it; white space without end is a trap.
_JSON: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}


class LLMBackend:
    """A model of transformers as the tools.

    Args:
        model, tokenizer: any causal LM that ``TransformersEngine`` can sample from, and its fast tokenizer.
        name: what ``identity`` calls it.
        temperature: 0 is greedy. max_tokens: of one answer. batch_size: calls in one batch.
    """

    uses_context = True

    def __init__(
        self, model: Any, tokenizer: Any, name: str, temperature: float = 0.6, max_tokens: int = 256, batch_size: int = 32
    ) -> None:
        from llguidance.hf import from_tokenizer

        self._lock = threading.Lock()  # one batch at a time: a server has several threads
        self.engine, self.tokenizer = TransformersEngine(model), tokenizer
        self.temperature, self.max_tokens, self.batch_size = temperature, max_tokens, batch_size
        self.identity = f"llm {name} temperature {temperature:g} tokens {max_tokens}"
        self.vocabulary = int(model.config.vocab_size)
        self.ends = _ends(model, tokenizer)
        self._ll = from_tokenizer(tokenizer, n_vocab=self.vocabulary, eos_token=self.ends)

    @classmethod
    def from_config(cls, config: SimulatorConfig) -> LLMBackend:
        """The checkpoint ``config.model``: an embedded name or a folder.

        Raises:
            ValueError: there is no such checkpoint, or it cannot be loaded.
        """
        from slca.policy import load_model

        gpu = torch.cuda.is_available()
        try:
            model, tokenizer, _ = load_model(config.model, torch.bfloat16 if gpu else torch.float32)
        except (OSError, RuntimeError) as err:
            raise ValueError(f"simulator.model {config.model!r}: {err}") from err
        model = model.to("cuda" if gpu else "cpu").requires_grad_(False)
        return cls(model, tokenizer, config.model, config.temperature, config.max_tokens, config.batch_size)

    @torch.no_grad()
    def answer(self, requests: Sequence[Request]) -> list[Draft]:
        """Drafts in the order of ``requests``. An answer depends on its request and seed, not on the batch."""
        with self._lock:
            return self._answer(requests)

    def _answer(self, requests: Sequence[Request]) -> list[Draft]:
        drafts: list[Draft | None] = [None] * len(requests)
        prompts = [prompt_ids(self.tokenizer, r) for r in requests]
        order = sorted(range(len(requests)), key=lambda i: (_head(requests[i]), len(prompts[i]), i))
        was_training = self.engine.model.training
        self.engine.model.eval()
        try:
            for at in range(0, len(order), self.batch_size):
                chosen = order[at : at + self.batch_size]
                rows = [_Row(self, requests[i], prompts[i]) for i in chosen]
                _decode(self, rows)
                for i, row in zip(chosen, rows, strict=True):
                    drafts[i] = row.draft(self.tokenizer)
        finally:
            self.engine.model.train(was_training)
        return [d for d in drafts if d is not None]

    def matcher(self, request: Request) -> Any:
        """What holds the answer to the response schema; None in mode ``without_schema``."""
        if request.tool is None:
            return None
        from llguidance import LLMatcher

        for schema in (grammar_schema(request.tool.returns, request.arguments), {"type": "object"}):
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=_JSON)
            matcher = LLMatcher(self._ll, grammar, log_level=0)
            if not matcher.is_error():
                return matcher
        return None  # free text; it is checked and mended like any other


class _Row:
    """One answer on its way: ``ids`` holds prompt and answer, the last ``unfed`` of them not yet in the cache."""

    def __init__(self, backend: LLMBackend, request: Request, prompt: list[int]) -> None:
        self.key = _head(request)
        self.ids, self.start, self.unfed = list(prompt), len(prompt), len(prompt)
        self.limit, self.ends, self.done = backend.max_tokens, backend.ends, False
        self.matcher = backend.matcher(request)
        identity = f"{request.name}\0{canonical(request.arguments)}"
        self.draws = uniforms(request.seed, identity, 0, backend.max_tokens)
        self._force()

    def mask(self, allowed: Tensor) -> None:
        """Set ``allowed`` (V,) bool to the tokens that may come next."""
        if self.matcher is not None:
            bits = np.frombuffer(self.matcher.compute_bitmask(), dtype=np.uint8)
            kept = np.unpackbits(bits, bitorder="little")[: len(allowed)].astype(bool)
            allowed[: len(kept)] = torch.from_numpy(kept)
            allowed[len(kept) :] = False

    @property
    def drawn(self) -> float:
        return float(self.draws[min(len(self.ids) - self.start, self.limit - 1)])

    def append(self, token: int) -> None:
        """Take a sampled token, and what must follow it."""
        refused = self.matcher is not None and not self.matcher.consume_token(token)
        if refused or token in self.ends:
            self.done = True
        else:
            self.ids.append(token)
            self.unfed += 1
            self._force()

    def _force(self) -> None:
        if self.matcher is not None:
            forced = [t for t in self.matcher.compute_ff_tokens() if t not in self.ends]
            if forced and self.matcher.consume_tokens(forced):
                self.ids += forced
                self.unfed += len(forced)
            self.done = self.done or self.matcher.is_stopped()
        self.done = self.done or len(self.ids) - self.start >= self.limit

    def draft(self, tokenizer: Any) -> Draft:
        text = tokenizer.decode(self.ids[self.start :], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return Draft(text=text.strip(), prompt_tokens=self.start, tokens=len(self.ids) - self.start)


def _decode(backend: LLMBackend, rows: list[_Row]) -> None:
    """Write the rows' answers."""
    rows = [r for r in rows if not r.done]
    if not rows:
        return
    device = next(backend.engine.model.parameters()).device
    cache = RaggedCache(1, max(len(r.ids) for r in rows) + backend.max_tokens + 1)
    _prefill(backend.engine, cache, rows, device)
    while any(not row.done for row in rows):
        logits = _feed(backend.engine, cache, rows)
        allowed = torch.ones(logits.shape, dtype=torch.bool)
        for row, mine in zip(rows, allowed, strict=True):
            if not row.done:
                row.mask(mine)
        logits = logits.masked_fill(~allowed.to(device), float("-inf"))
        draws = torch.tensor([r.drawn for r in rows], dtype=torch.float64, device=device)
        tokens, _ = choose(logits, Sampling(backend.temperature), draws)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            if not row.done:
                row.append(token)
        going = [i for i, row in enumerate(rows) if not row.done]
        if len(going) <= 0.75 * len(rows):  # dropping a row copies the cache; a few idle ones cost less
            rows = [rows[i] for i in going]
            cache.keep(torch.tensor(going, dtype=torch.long, device=device))


def _prefill(engine: TransformersEngine, cache: RaggedCache, rows: Sequence[_Row], device: torch.device) -> None:
    """Feed once what all rows have in common, then once what the rows of a tool have in common."""
    fed, source = 0, [0] * len(rows)  # tokens in the cache so far, and the cache row that holds them
    by_tool = [[i for i, _ in members] for _, members in groupby(enumerate(rows), key=lambda pair: pair[1].key)]
    for groups in ([list(range(len(rows)))], by_tool):
        common = [_common([rows[i] for i in group]) for group in groups]
        cache.keep(torch.tensor([source[group[0]] for group in groups], device=device))
        longer = [k for k, n in enumerate(common) if n > fed]
        if longer:
            pieces = [rows[groups[k][0]].ids[fed : common[k]] for k in longer]
            engine.forward(cache, torch.tensor(longer, device=device), pieces, [fed] * len(longer))
        for k, group in enumerate(groups):
            for i in group:
                rows[i].unfed, source[i] = len(rows[i].ids) - common[k], k
        fed = min(common)
    cache.keep(torch.tensor(source, device=device))


def _common(group: Sequence[_Row]) -> int:
    """Length of the longest common start, less than any whole row."""
    shortest = min((r.ids for r in group), key=len)
    n = len(shortest) - 1
    for row in group:
        n = next((i for i in range(n) if row.ids[i] != shortest[i]), n)
    return n


def _feed(engine: TransformersEngine, cache: RaggedCache, rows: Sequence[_Row]) -> Tensor:
    """Logits (n, V) float32 after what each row has not yet fed."""
    for row in rows:
        row.unfed = 1 if row.done else row.unfed  # who is done rides along and looks at its last token
    pieces = [row.ids[-row.unfed :] for row in rows]
    logits = engine.forward(cache, None, pieces, [len(row.ids) - row.unfed for row in rows])
    for row in rows:
        row.unfed = 0
    return logits


def _head(request: Request) -> str:
    return request.tool.digest if request.tool is not None else ""


def _ends(model: Any, tokenizer: Any) -> list[int]:
    """Ids that end a turn."""
    given = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    end = tokenizer.convert_tokens_to_ids(END)
    found = [tokenizer.eos_token_id, None if end == tokenizer.unk_token_id else end]
    found += given if isinstance(given, (list, tuple)) else [given]
    ids = list(dict.fromkeys(int(i) for i in found if i is not None))
    if not ids:
        raise ValueError("the simulator's model has no token that ends a turn")
    return ids

