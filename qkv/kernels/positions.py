"""Fast twins of `qkv.functional.positions`: nothing larger than the attention weights is materialised."""

import math

from jaxtyping import Float
from torch import Tensor

from qkv.core.shapes import AttentionWeights, Heads
from qkv.functional.positions import DistanceBias, Distances


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
