"""The window of `blocks` by PyTorch's `flex_attention`, for accelerators.

A mask is a function of two positions, blocks outside of it are never computed, and `torch.compile` writes one fused
kernel for forward and backward passes. Where it is not available, `blocks` is used.
"""

import importlib.util
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from qkv.core.shapes import ContextHeads, Heads

SMALLEST_WIDTH = 16
"""Of a head: narrower ones do not fill a tile of its kernel."""
SHORTEST = 256
"""Queries from which skipping blocks pays: a block of its kernel has 128."""

Run = Callable[..., Tensor]


def suits_flex(q: Tensor) -> bool:
    """Whether a sequence [B, H, n, E] goes to `flex_attention`: on a CUDA device with Triton, if it is long."""
    width, length = q.shape[3], q.shape[2]
    return (
        q.device.type == "cuda"
        and length >= SHORTEST
        and width >= SMALLEST_WIDTH
        and width & (width - 1) == 0
        and importlib.util.find_spec("triton") is not None
    )


def flex_window_attention(
    q: Heads,
    k: Heads,
    v: ContextHeads,
    left: int,
    right: int,
    keep: Bool[Tensor, "B Q"] | None = None,
    run: Run | None = None,
) -> ContextHeads:
    """softmax(Q Kᵀ / √d_k) V over the real keys from `left` positions before a query to `right` after it.

    `run` is `flex_attention`, compiled if None. A query without any key gets 0.
    """
    block_mask = _block_mask(q, left, right, keep)
    output = (run or compiled_flex())(q, k, v, block_mask=block_mask)
    if keep is None:
        return output
    positions = torch.arange(q.shape[2], device=q.device)
    before = torch.nn.functional.pad(keep.cumsum(1), (1, 0))
    count = before[:, (positions + right + 1).clamp(max=q.shape[2])] - before[:, (positions - left).clamp(min=0)]
    return torch.where((count > 0)[:, None, :, None], output, 0.0)


@cache
def compiled_flex() -> Run:
    """`flex_attention` as one kernel."""
    from torch.nn.attention.flex_attention import flex_attention

    compiled: Run = torch.compile(flex_attention, dynamic=True)
    return compiled


_latest: tuple[tuple[Any, ...], Any] | None = None
"""The newest block mask and what it was made for: the layers of a pass share it."""


def _block_mask(q: Tensor, left: int, right: int, keep: Tensor | None) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    global _latest
    batch, _, length, _ = q.shape
    made_for = (left, right, length, q.device, None if keep is None else weakref.ref(keep))
    if _latest is not None and _latest[0] == made_for:
        return _latest[1]

    rows = None if keep is None else batch
    made = create_block_mask(_seen(left, right, keep), rows, None, length, length, device=q.device)
    _latest = made_for, made
    return made


def _seen(left: int, right: int, keep: Tensor | None) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Of (row, head, query, key): whether the query may attend to the key."""
    if keep is None:
        return lambda row, head, query, key: (key >= query - left) & (key <= query + right)
    return lambda row, head, query, key: (key >= query - left) & (key <= query + right) & keep[row, key]
