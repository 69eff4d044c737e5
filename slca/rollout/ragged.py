"""Feeding rows of different lengths at once: tokens lie flat, one row after the other, and nothing is padded but attention.

The linear layers see the real tokens only; attention, cheap beside them for short pieces, sees one padded batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Flat:
    """Pieces of n rows, L tokens in all.

    Attributes:
        tokens, positions: (1, L) int64.
        row: (L,) int64, which piece a token belongs to; slot: (L,) its place in the padded (n * q) batch.
        last: (n,) int64, where each piece's last token lies.
        mask: (n, 1, q, width) bool, what the queries of each row may attend to.
    """

    tokens: Tensor
    positions: Tensor
    row: Tensor
    slot: Tensor
    last: Tensor
    mask: Tensor

    @classmethod
    def of(cls, pieces: Sequence[Sequence[int]], starts: Sequence[int], device: torch.device) -> Flat:
        """Piece i goes to positions ``starts[i]``, ``starts[i] + 1``, ...; no piece may be empty."""
        lengths = torch.tensor([len(p) for p in pieces], device=device)
        first = torch.tensor(list(starts), device=device)
        most, width = int(lengths.max()), int((first + lengths).max())
        row = torch.arange(len(pieces), device=device).repeat_interleave(lengths)
        ends = lengths.cumsum(0)
        offset = torch.arange(len(row), device=device) - (ends - lengths)[row]
        queries = first[:, None] + torch.arange(most, device=device)
        mask = torch.arange(width, device=device) <= queries[:, None, :, None]
        tokens = torch.tensor([list(chain.from_iterable(pieces))], device=device)
        return cls(tokens, (first[row] + offset)[None], row, row * most + offset, ends - 1, mask)

    def padded(self, query: Tensor) -> Tensor:
        """(1, heads, L, dim) -> (n, heads, q, dim)."""
        n, _, q, _ = self.mask.shape
        out = query.new_zeros(n * q, query.shape[1], query.shape[3])
        out[self.slot] = query[0].transpose(0, 1)
        return out.view(n, q, *out.shape[1:]).transpose(1, 2)

    def flat(self, output: Tensor) -> Tensor:
        """(n, q, heads, dim) -> (1, L, heads, dim)."""
        return output.flatten(0, 1)[self.slot][None]


class RaggedCache:
    """Key/value cache for rows of different lengths (the part of transformers' cache interface that models use).

    Keys and values of a layer are (rows, kv heads, capacity, head dim). ``view`` says which rows take part in the next
    forward pass, and where they write.
    """

    def __init__(self, rows: int, capacity: int) -> None:
        self.rows, self.capacity = rows, capacity
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self._used = 0

    def view(self, index: Tensor | None, flat: Flat) -> None:
        """Next forward: the pieces of ``flat`` belong to rows ``index`` (n,); None: to all rows in order."""
        self._index, self._at = index, flat.positions[0]
        self._row = flat.row if index is None else index[flat.row]
        self._width = flat.mask.shape[-1]
        self._used = max(self._used, self._width)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._width

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write (1, heads, L, dim) and return what the rows may attend to, (n, heads, width, dim)."""
        if layer_idx == len(self.keys):
            self.keys.append(key.new_zeros((self.rows, key.shape[1], self.capacity, key.shape[3])))
            self.values.append(value.new_zeros((self.rows, value.shape[1], self.capacity, value.shape[3])))
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[self._row, :, self._at] = key[0].transpose(0, 1)
        values[self._row, :, self._at] = value[0].transpose(0, 1)
        keys, values = keys[:, :, : self._width], values[:, :, : self._width]
        return (keys, values) if self._index is None else (keys[self._index], values[self._index])

    def keep(self, index: Tensor) -> None:
        """Rows ``index`` (n,) only, in that order; a row may be repeated (a group's rollouts share a prompt)."""
        self.keys = [self._select(k, index) for k in self.keys]
        self.values = [self._select(v, index) for v in self.values]
        self.rows = len(index)

    def _select(self, old: Tensor, index: Tensor) -> Tensor:
        # Zeros, not uninitialised memory: a masked NaN would still poison the weighted sum.
        new = old.new_zeros((len(index), *old.shape[1:]))
        new[:, :, : self._used] = old[:, :, : self._used].index_select(0, index)
        return new
