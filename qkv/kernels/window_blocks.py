"""Which slice of the keys a block of queries reads, and what is added to its scores (see `window.py`)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK = 64
"""Queries that are computed at once: more of them share their keys better, fewer waste less beside the band."""


@dataclass(frozen=True)
class Block:
    """Some queries and the slice of keys that they can see; `band` is 0 in a query's window and very low outside."""

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
        """[B, 1, n, 1], whether a query sees any key; None: all do."""
        self.masks = self._masks(keep, extra_keep)
        """[B, extra] and [B, n], 0 for a real key and very low for another one; None: all are real."""

    def blocks(self) -> Iterator[Block]:
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
            yield Block(slice(first, end), slice(low, high), F.pad(part, (self.extra, 0)))

    def weights(self, block: Block, q: Tensor, k: Tensor) -> Tensor:
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
        if (keep is None or bool(keep.all())) and bool(extra_keep.all()):
            return None
        real = keep if keep is not None else torch.ones(self.batch, self.length, dtype=torch.bool, device=self.device)
        zero = torch.zeros((), dtype=self.wide, device=self.device)
        return torch.where(extra_keep, zero, self.never), torch.where(real, zero, self.never)

    def _sees(self, keep: Tensor | None, extra_keep: Tensor) -> Tensor | None:
        if keep is None or bool(keep.all()):
            return None
        before = F.pad(keep.cumsum(1), (1, 0))
        at = torch.arange(self.length, device=self.device)
        count = before[:, (at + self.right + 1).clamp(max=self.length)] - before[:, (at - self.left).clamp(min=0)]
        found = (count > 0) | extra_keep.any(1, keepdim=True)
        return None if bool(found.all()) else found[:, None, :, None]
