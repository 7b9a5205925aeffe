"""The KV cache, and the state of a decoder as a value.

A pass returns a new state and does not change the old one, so a search may continue from any of them. The states of one
hypothesis share their memory; it is copied only if two of them continue from the same one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.layers.attention.base import Block, Crossing, KeyValue

GROWTH = 16
"""The capacity of a cache is a multiple of this many positions."""


@dataclass
class KVCache:
    """Keys and values of all decoded positions, [L, R, 2 KV heads, capacity, E]: keys first, then values."""

    tensor: Tensor
    carried: Tensor | None = None
    """[L, R, H, capacity, C], what cross-attention carries from position to position, if it is of such a kind."""
    heads: tuple[int, ...] | None = None
    """The number of heads of keys and values that each layer uses, the first ones; None: all."""
    version: int = 0
    """Counts the passes that wrote to it: the state with the same number may write in place."""
    truncated: int = -1
    """The version of the newest state that was truncated."""

    def with_capacity(self, length: int) -> "KVCache":
        """A new cache with the same content and a capacity of at least `length` positions."""
        return self.with_positions(length - self.tensor.shape[3] + -length % GROWTH)

    def with_positions(self, more: int) -> "KVCache":
        """A new cache with the same content and a capacity of so many positions more."""
        return self._each(lambda part: F.pad(part, (0, 0, 0, more)))

    def select(self, rows: Tensor) -> "KVCache":
        """A new cache with these rows, in this order."""
        return self._each(lambda part: part.index_select(1, rows))

    def copy(self, version: int) -> "KVCache":
        return replace(self._each(Tensor.clone), version=version)

    def until(self, end: int) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        """Each layer's part of the first `end` positions, and what they carry."""
        past: Sequence[Tensor] = self.tensor.narrow(3, 0, end).unbind(0)
        if self.heads is not None:
            past = [layer.narrow(1, 0, 2 * heads) for layer, heads in zip(past, self.heads, strict=True)]
        return past, [None] * len(past) if self.carried is None else self.carried.narrow(3, 0, end).unbind(0)

    def _each(self, f: Callable[[Tensor], Tensor]) -> "KVCache":
        return KVCache(f(self.tensor), None if self.carried is None else f(self.carried), self.heads)


@dataclass(frozen=True)
class SourceKeys:
    """Keys and values of the sources, computed once: every pass attends to them."""

    key_value: Tensor
    """[L, B, 2 KV heads, S', E]; S' is S unless a wiring attends to several states of a source token."""
    padding: Tensor | None
    """[B, 1, 1, S'], 0 for a token and -inf for none; None: no padding."""
    src: Tensor | None = None
    """[B, S], the ids of the sources; only where the output head needs them."""
    pointed_at: Tensor | None = None
    """[B, S, D], what the output head points at (`Head.keys`); only where it does."""
    complete: bool = True
    """Whether the sources have ended; otherwise more of them may follow."""
    heads: tuple[int, ...] | None = None
    """The number of heads of keys and values that each layer uses, the first ones; None: all."""

    @cached_property
    def layers(self) -> list[KeyValue]:
        layers = [KeyValue(*layer.chunk(2, 1)) for layer in self.key_value.unbind(0)]
        if self.heads is None:
            return layers
        return [KeyValue(k[:, :heads], v[:, :heads]) for (k, v), heads in zip(layers, self.heads, strict=True)]

    def crossings(self, block: Block, carried: Sequence[Tensor | None]) -> list[Crossing]:
        """What the positions of a block attend to in each layer."""
        pairs = zip(self.layers, carried, strict=True)
        return [Crossing(layer, block, self.padding, part, self.complete) for layer, part in pairs]

    def select(self, sentences: Tensor) -> "SourceKeys":
        if torch.equal(sentences, torch.arange(self.key_value.shape[1], device=sentences.device)):
            return self
        padding, src, pointed_at = (
            None if part is None else part.index_select(0, sentences)
            for part in (self.padding, self.src, self.pointed_at)
        )
        key_value = self.key_value.index_select(1, sentences)
        return SourceKeys(key_value, padding, src, pointed_at, self.complete, self.heads)

    def copy(self) -> "SourceKeys":
        """The same in tensors of its own."""
        padding, src, pointed_at = (
            None if part is None else part.clone() for part in (self.padding, self.src, self.pointed_at)
        )
        return SourceKeys(self.key_value.clone(), padding, src, pointed_at, self.complete, self.heads)

    def ids_of(self, tokens: Tensor) -> Tensor | None:
        """The source ids [R, W, S] of rows that get these tokens [R, W]."""
        if self.src is None:
            return None
        return self.src.repeat_interleave(len(tokens) // len(self.src), 0)[:, None].expand(-1, tokens.shape[1], -1)


@dataclass(frozen=True)
class DecoderState:
    """The decoder state of each row. Row = sentence x beams + beam; beams share one copy of their source."""

    cache: KVCache
    lengths: tuple[int, ...]
    """The first lengths[r] positions of the cache are valid for row r."""
    sources: SourceKeys
    version: int = 0
    """The version of the cache when this state was created."""

    def reorder(self, rows: Tensor, sentences: Tensor) -> "DecoderState":
        """New row r continues old row rows[r]; new sentence i is old sentence sentences[i]."""
        self._require_intact()
        cache = self.cache.select(rows)
        lengths = self.lengths[:1] * len(rows) if self.level else tuple(self.lengths[row] for row in rows.tolist())
        return DecoderState(cache, lengths, self.sources.select(sentences))

    def select(self, rows: Sequence[int]) -> "DecoderState":
        """Only these rows, in this order, where each sentence has one."""
        index = torch.tensor(rows, device=self.cache.tensor.device)
        return self.reorder(index, index)

    def truncate(self, lengths: Sequence[int]) -> "DecoderState":
        """Truncate row r to lengths[r] positions. This state must not be used afterwards."""
        cache = self._owned()
        cache.truncated = cache.version
        cache.version += 1
        return replace(self, cache=cache, lengths=tuple(lengths), version=cache.version)

    @property
    def level(self) -> bool:
        """Whether all rows have the same length."""
        return self.lengths.count(self.lengths[0]) == len(self.lengths)

    def writable(self, width: int) -> KVCache:
        """A cache with these positions and capacity for `width` more; other states are not changed."""
        needed = max(self.lengths) + width
        cache = self._owned()
        return cache if needed <= cache.tensor.shape[3] else cache.with_capacity(needed)

    def after(self, cache: KVCache, width: int) -> "DecoderState":
        """`width` positions more, which were written to `cache`."""
        cache.version += 1
        lengths = tuple([length + width for length in self.lengths])
        return DecoderState(cache, lengths, self.sources, cache.version)

    def _owned(self) -> KVCache:
        """The cache itself, or a copy if another state has continued from this one."""
        if self.cache.version == self.version:
            return self.cache
        self._require_intact()
        return self.cache.copy(self.version)

    def _require_intact(self) -> None:
        if self.version <= self.cache.truncated:
            raise RuntimeError("this decoder state was truncated; continue from the state that truncate() returned")
