"""Attention to a window around each query, with time and memory linear in the length.

A block of queries reads its keys in place: they are a slice of all keys, so nothing is copied, padded or unfolded.
The weights of one block stay in the processor's cache and are recomputed in the backward pass.
Twin: `scaled_dot_product` with the mask of `within(left, right)`, and of `both(within, dilated)` for dilation.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from qkv.core.devices import autocast_dtype, surely_all
from qkv.core.shapes import ContextHeads, Heads
from qkv.kernels.window.flex import flex_window_attention, suits_flex

BLOCK = 64
"""Queries computed at once: more of them share their keys better, fewer compute less outside the band."""


@dataclass(frozen=True)
class WindowBlock:
    """Some queries and the slice of keys in their windows; `band` is 0 in a query's window and very low outside."""

    queries: slice
    keys: slice
    band: Tensor


class Pattern:
    """The blocks of one attention of [B, H, n, E] queries, and the weights of each."""

    def __init__(self, q: Tensor, left: int, right: int, keep: Tensor | None, extra_keep: Tensor) -> None:
        self.batch, self.heads, self.length, width = q.shape
        self.left, self.right = min(left, self.length), min(right, self.length)
        self.scale = 1 / math.sqrt(width)
        self.wide = torch.promote_types(q.dtype, torch.float32)
        self.never = torch.finfo(self.wide).min / 4
        self.device = q.device
        self.extra = extra_keep.shape[1]
        self.sees = self._sees(keep, extra_keep)
        """[B, 1, n, 1], whether a query has any key; None: all do."""
        self.masks = self._masks(keep, extra_keep)
        """[B, extra] and [B, n], 0 for a real key and very low for padding; None: all are real."""

    def blocks(self) -> Iterator[WindowBlock]:
        size = min(BLOCK, self.length)
        row = torch.arange(size, device=self.device)[:, None]
        column = torch.arange(size + self.left + self.right, device=self.device) - self.left
        outside = (column < row - self.left) | (column > row + self.right)
        band = torch.zeros(outside.shape, dtype=self.wide, device=self.device).masked_fill_(outside, self.never)
        for first in range(0, self.length, max(size, 1)):
            end = min(first + size, self.length)
            low, high = max(0, first - self.left), min(self.length, end + self.right)
            start = low - (first - self.left)
            part = band[: end - first, start : start + high - low]
            yield WindowBlock(slice(first, end), slice(low, high), F.pad(part, (self.extra, 0)))

    def weights(self, block: WindowBlock, q: Tensor, k: Tensor) -> Tensor:
        """softmax of the scores of a block's queries [B H, b, E] and keys, [B H, b, extra + keys]."""
        band = block.band.expand(len(q), -1, -1)
        if q.dtype == self.wide:
            scores = torch.baddbmm(band, q, k.transpose(1, 2), alpha=self.scale)
        else:
            scores = torch.bmm(q, k.transpose(1, 2)).to(self.wide).mul_(self.scale).add_(band)
        if self.masks is not None:
            mask = torch.cat([self.masks[0], self.masks[1][:, block.keys]], dim=1)
            scores.view(self.batch, self.heads, *scores.shape[1:]).add_(mask[:, None, None])
        return torch.softmax(scores, dim=-1)

    def _masks(self, keep: Tensor | None, extra_keep: Tensor) -> tuple[Tensor, Tensor] | None:
        if (keep is None or surely_all(keep)) and surely_all(extra_keep):
            return None
        real = keep if keep is not None else torch.ones(self.batch, self.length, dtype=torch.bool, device=self.device)
        zero = torch.zeros((), dtype=self.wide, device=self.device)
        return torch.where(extra_keep, zero, self.never), torch.where(real, zero, self.never)

    def _sees(self, keep: Tensor | None, extra_keep: Tensor) -> Tensor | None:
        if keep is None or surely_all(keep):
            return None
        before = F.pad(keep.cumsum(1), (1, 0))
        at = torch.arange(self.length, device=self.device)
        count = before[:, (at + self.right + 1).clamp(max=self.length)] - before[:, (at - self.left).clamp(min=0)]
        found = (count > 0) | extra_keep.any(1, keepdim=True)
        return None if surely_all(found) else found[:, None, :, None]


class Window(NamedTuple):
    """The keys of query i: i + t dilation with -left ≤ t ≤ right."""

    left: int
    right: int
    dilation: int = 1


class Everywhere(NamedTuple):
    """Keys and values of the global tokens, [B, H, G, E] each, and which of them are real [B, G]."""

    keys: Tensor
    values: Tensor
    keep: Tensor


def window_attention(
    q: Heads,
    k: Heads,
    v: ContextHeads,
    window: Window,
    keep: Bool[Tensor, "B Q"] | None = None,
    everywhere: Everywhere | None = None,
) -> ContextHeads:
    """softmax(Q Kᵀ / √d_k) V over the real keys in a query's window, and the global ones.

    One softmax over both, so a key in `everywhere` must be False in `keep`.
    """
    if window.dilation > 1:
        return _dilated(q, k, v, window, keep, everywhere)
    if everywhere is None and suits_flex(q):
        return flex_window_attention(q, k, v, window.left, window.right, keep)
    extra = _nowhere(k, v) if everywhere is None else everywhere
    tensors = [q, k, v, extra.keys, extra.values]
    if low := autocast_dtype(q.device):
        tensors = [x.to(low) for x in tensors]
    output: Tensor = _WindowAttention.apply(*tensors, window.left, window.right, keep, extra.keep)
    return output


def _nowhere(k: Tensor, v: Tensor) -> Everywhere:
    batch, heads, _, width = k.shape
    keep = torch.empty(batch, 0, dtype=torch.bool, device=k.device)
    return Everywhere(k.new_empty(batch, heads, 0, width), v.new_empty(batch, heads, 0, v.shape[3]), keep)


def _dilated(
    q: Tensor, k: Tensor, v: Tensor, window: Window, keep: Tensor | None, everywhere: Everywhere | None
) -> Tensor:
    """Positions attend only to those equal modulo the dilation, so each residue class is a sequence."""
    batch, _, length, _ = q.shape
    step = window.dilation
    if keep is None:
        keep = torch.ones(batch, length, dtype=torch.bool, device=q.device)
    if everywhere is not None:
        everywhere = Everywhere(*(part.repeat_interleave(step, 0) for part in everywhere))
    q, k, v = (by_class(x, step, 2) for x in (q, k, v))
    output = window_attention(q, k, v, window._replace(dilation=1), by_class(keep, step, 1), everywhere)
    return by_position(output, step, length)


def by_class(x: Tensor, step: int, axis: int) -> Tensor:
    """[B, ..., n, ...] to [B step, ..., n / step, ...]: row b step + c holds the positions c, c + step, c + 2 step, ...

    Padded with zeros.
    """
    missing = -x.shape[axis] % step
    if missing:
        x = torch.cat([x, x.new_zeros(*x.shape[:axis], missing, *x.shape[axis + 1 :])], dim=axis)
    split = x.reshape(*x.shape[:axis], -1, step, *x.shape[axis + 1 :])
    return split.movedim(axis + 1, 1).flatten(0, 1)


def by_position(x: Tensor, step: int, length: int) -> Tensor:
    """The inverse of `by_class` for [B step, H, n / step, E]."""
    split = x.view(-1, step, *x.shape[1:]).movedim(1, 3)
    return split.flatten(2, 3)[:, :, :length]


class _WindowAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        extra_keys: Tensor,
        extra_values: Tensor,
        left: int,
        right: int,
        keep: Tensor | None,
        extra_keep: Tensor,
    ) -> Tensor:
        ctx.pattern = pattern = Pattern(q, left, right, keep, extra_keep)
        q, k, v, extra_keys, extra_values = (_flat(x) for x in (q, k, v, extra_keys, extra_values))
        ctx.save_for_backward(q, k, v, extra_keys, extra_values)
        output = q.new_empty(*q.shape[:2], v.shape[2])
        for block in pattern.blocks():
            weights = pattern.weights(block, q[:, block.queries], _with(extra_keys, k[:, block.keys]))
            output[:, block.queries] = torch.bmm(weights.to(v.dtype), _with(extra_values, v[:, block.keys]))
        output = output.view(pattern.batch, pattern.heads, pattern.length, -1)
        return output if pattern.sees is None else output.mul_(pattern.sees)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        pattern: Pattern = ctx.pattern
        q, k, v, extra_keys, extra_values = ctx.saved_tensors
        d_context = _flat(upstream if pattern.sees is None else upstream * pattern.sees)
        d_q, d_k, d_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        d_extra_keys, d_extra_values = torch.zeros_like(extra_keys), torch.zeros_like(extra_values)
        for block in pattern.blocks():
            queries, d_out = q[:, block.queries], d_context[:, block.queries]
            keys, values = _with(extra_keys, k[:, block.keys]), _with(extra_values, v[:, block.keys])
            weights = pattern.weights(block, queries, keys)
            d_weights = torch.bmm(d_out, values.transpose(1, 2)).to(pattern.wide)
            d_scores = torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype).mul_(pattern.scale)
            narrow = d_scores.to(q.dtype)
            d_q[:, block.queries] = torch.bmm(narrow, keys)
            _add(d_extra_keys, d_k[:, block.keys], torch.bmm(narrow.transpose(1, 2), queries))
            _add(d_extra_values, d_v[:, block.keys], torch.bmm(weights.to(v.dtype).transpose(1, 2), d_out))
        shape = (pattern.batch, pattern.heads)
        gradients = (d_q, d_k, d_v, d_extra_keys, d_extra_values)
        return *(x.view(*shape, *x.shape[1:]) for x in gradients), None, None, None, None


def _flat(x: Tensor) -> Tensor:
    """[B, H, n, E] as contiguous [B H, n, E]."""
    return x.flatten(0, 1).contiguous()


def _with(extra: Tensor, x: Tensor) -> Tensor:
    return torch.cat([extra, x], dim=1) if extra.shape[1] else x


def _add(extra: Tensor, slice_of: Tensor, gradient: Tensor) -> None:
    """The gradient of `_with`, accumulated over the blocks."""
    count = extra.shape[1]
    extra += gradient[:, :count]
    slice_of += gradient[:, count:]
