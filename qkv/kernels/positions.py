"""Fast twins of `qkv.functional.positions`, which write less to memory: nothing larger than the attention weights."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.core.devices import by_hand
from qkv.core.shapes import AttentionWeights, Heads
from qkv.functional import positions as plain
from qkv.functional.positions import DistanceBias, Distances, Waves


def rotate_halves(x: Float[Tensor, "*rows E"], cos: Waves, sin: Waves) -> Float[Tensor, "*rows E"]:
    """The rotation of the pairs (x_i, x_i+d/2), written into the result: no halves that are joined afterwards.

    Its gradient is the rotation back. No gradient flows to `cos` and `sin`.
    """
    if not by_hand(x) or not torch.is_grad_enabled():
        # For the single token of a decoding step the equation itself is faster.
        return plain.rotate_halves(x, cos, sin)
    turned: Tensor = _RotateHalves.apply(x, cos, sin)
    return turned


class _RotateHalves(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        turned = x * torch.cat([cos, cos], dim=-1)
        (first, second), (new_first, new_second) = x.chunk(2, dim=-1), turned.chunk(2, dim=-1)
        new_first.addcmul_(second, sin, value=-1)
        new_second.addcmul_(first, sin)
        return turned

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _RotateHalves.apply(upstream, cos, -sin), None, None


def shaw_scores(q: Heads, table: Float[Tensor, "C E"], row: Distances) -> AttentionWeights:
    """(Q aᵀ / √d_k)_ic for every distance c, gathered for each key."""
    by_distance = (q / math.sqrt(q.shape[-1])) @ table.to(q.dtype).T
    return by_distance.gather(-1, row[:, None].expand(*q.shape[:2], -1, -1))


def shaw_context(weights: AttentionWeights, table: Float[Tensor, "C E"], row: Distances) -> Float[Tensor, "B H Q E"]:
    """The weights summed over the keys at each distance c, times a_c."""
    by_distance = weights.new_zeros(*weights.shape[:3], len(table))
    summed = by_distance.scatter_add(-1, row[:, None].expand_as(weights), weights)
    return summed @ table.to(weights.dtype)


def t5_bias(table: Float[Tensor, "N H"], bucket: Distances) -> DistanceBias:
    """Gathered head by head, so that the result has the layout of the scores: three times as fast as transposing it."""
    rows, queries, _ = bucket.shape
    by_head = table.T[None, :, None].expand(rows, -1, queries, -1)
    return by_head.gather(-1, bucket[:, None].expand(-1, table.shape[1], -1, -1))
