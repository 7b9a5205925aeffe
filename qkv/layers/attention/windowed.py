"""Sliding-window attention with any position scheme, in memory linear in the length."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.kernels.window import Everywhere, Window, by_class, by_position, window_attention
from qkv.layers.positions.attention import attention_with_positions
from qkv.layers.positions.base import Positions

SMALLEST = 16
"""The least number of queries in a block, so that several share the keys of a narrow window."""


class ProjectedHeads(NamedTuple):
    """Rotated queries and keys, and values, [B, H, n, E] each, of one sequence."""

    q: Tensor
    k: Tensor
    v: Tensor


class Shown(NamedTuple):
    """Global keys, and their position ids [B, G]."""

    keys: Everywhere
    pos: Tensor


def windowed_attention(
    positions: Positions,
    heads: ProjectedHeads,
    window: Window,
    keep: Tensor | None,
    pos: Tensor,
    dropout: float = 0.0,
    shown: Shown | None = None,
) -> Tensor:
    """softmax(Q Kᵀ / √d_k + bias) V over the window, plus the scheme's value term; `pos` is [n] or [B, n].

    Without a bias the kernel is used; otherwise blocks become rows of the batch of a dense attention.
    """
    plain = type(positions).bias is Positions.bias and not positions.has_value_term
    if plain and dropout == 0:
        return window_attention(*heads, window, keep, None if shown is None else shown.keys)
    batch, _, length, _ = heads.q.shape
    step = window.dilation
    real = keep if keep is not None else torch.ones(batch, length, dtype=torch.bool, device=pos.device)
    row_pos = pos.expand(batch, length)
    if step > 1:
        heads = ProjectedHeads(*(by_class(x, step, 2) for x in heads))
        real, row_pos = by_class(real, step, 1), by_class(row_pos, step, 1)
        shown = None if shown is None else _repeat(shown, step)
    output = _in_blocks(positions, heads, window, real, row_pos, dropout, shown)
    return output if step == 1 else by_position(output, step, length)


def _in_blocks(
    positions: Positions,
    heads: ProjectedHeads,
    window: Window,
    real: Tensor,
    pos: Tensor,
    dropout: float,
    shown: Shown | None,
) -> Tensor:
    left, right, length = window.left, window.right, real.shape[1]
    size = max(left, right, SMALLEST)
    fill = -length % size
    q, q_pos = (_blocks(x, size, 0, fill) for x in (heads.q, pos))
    k, v, k_pos, k_real = (_blocks(x, size, left, right + fill) for x in (heads.k, heads.v, pos, real))
    offset = (
        torch.arange(size + left + right, device=pos.device) - left - torch.arange(size, device=pos.device)[:, None]
    )
    mask = ((offset >= -left) & (offset <= right)) & k_real[:, None, None]
    if shown is not None:
        (keys, values, keep), shown_pos = _repeat(shown, (length + fill) // size)
        k, v, k_pos = torch.cat([keys, k], 2), torch.cat([values, v], 2), torch.cat([shown_pos, k_pos], 1)
        mask = torch.cat([keep[:, None, None].expand(-1, -1, size, -1), mask], -1)
    output = attention_with_positions(positions, q, k, v, mask, q_pos, k_pos, dropout)
    split = output.view(len(real), -1, *output.shape[1:]).transpose(1, 2)
    return split.flatten(2, 3)[:, :, :length]


def _blocks(x: Tensor, size: int, before: int, after: int) -> Tensor:
    """Every `size` positions with `before` positions before and `after` positions after them, as rows of the batch.

    [B, n] or [B, H, n, E]; `after` counts what fills n up to a multiple of `size`, too.
    """
    axis = 1 if x.dim() == 2 else 2
    padding = (before, after) if axis == 1 else (0, 0, before, after)
    filled = F.pad(x, padding)
    window = size + before + after - (-x.shape[axis] % size)
    windows = filled.unfold(axis, window, size)
    return windows.flatten(0, 1) if axis == 1 else windows.permute(0, 2, 1, 4, 3).flatten(0, 1)


def _repeat(shown: Shown, count: int) -> Shown:
    """For `count` rows of the batch that were one."""
    keys, pos = (part.repeat_interleave(count, 0) for part in shown.keys), shown.pos.repeat_interleave(count, 0)
    return Shown(Everywhere(*keys), pos)
