"""Fast twins of `qkv.functional.positions`: nothing is larger than the weights of the attention."""

import math

from jaxtyping import Float
from torch import Tensor

from qkv.core.shapes import AttentionWeights, Heads
from qkv.functional.positions import DistanceBias, Distances


def shaw_scores(q: Heads, table: Float[Tensor, "C E"], row: Distances) -> AttentionWeights:
    """(Q aᵀ / √d_k)_ic for every distance c, and of these the one of each key."""
    by_distance = (q / math.sqrt(q.shape[-1])) @ table.to(q.dtype).T
    return by_distance.gather(-1, row[:, None].expand(*q.shape[:2], -1, -1))


def shaw_context(weights: AttentionWeights, table: Float[Tensor, "C E"], row: Distances) -> Float[Tensor, "B H Q E"]:
    """The weights of all keys at distance c summed, times a_c."""
    by_distance = weights.new_zeros(*weights.shape[:3], len(table))
    summed = by_distance.scatter_add(-1, row[:, None].expand_as(weights), weights)
    return summed @ table.to(weights.dtype)


def t5_bias(table: Float[Tensor, "N H"], bucket: Distances) -> DistanceBias:
    """Gathered head by head, so that the result lies as the scores do; three times as fast as rows of heads turned."""
    rows, queries, _ = bucket.shape
    by_head = table.T[None, :, None].expand(rows, -1, queries, -1)
    return by_head.gather(-1, bucket[:, None].expand(-1, table.shape[1], -1, -1))
