"""Which rows of a batch each rank computes: parts of nearly equal cost, so that no rank waits long for another.

A rank pays for its padding, too, so rows of like length go to the same rank: the longest to the first one, which gets
fewer of them. The batch itself, and with it the update, is the same for every number of ranks.
"""

import numpy as np

from qkv.data.order.plan import Indices
from qkv.data.store import LengthArray


def share(indices: Indices, rank: int, world: int) -> Indices:
    """The rows of a batch that rank `rank` of `world` takes; may be empty when there are fewer rows than ranks."""
    return indices[rank::world]


def balanced_share(rows: Indices, src_len: LengthArray, tgt_len: LengthArray, rank: int, world: int) -> Indices:
    """The rows of a batch that rank `rank` of `world` computes; may be empty, but not for rank 0.

    `src_len` and `tgt_len` are those of all examples. The cost of a part is its positions with padding, of both sides:
    rows x (longest source + longest target). Among the ways to cut the sorted batch, this is the one whose most
    expensive part is cheapest.
    """
    if world == 1:
        return rows
    src, tgt = src_len[rows].astype(np.int64), tgt_len[rows].astype(np.int64)
    order = np.lexsort((-tgt, -src))
    bounds = _cheapest_cut(src[order], tgt[order], world)
    return rows[order[bounds[rank] : bounds[rank + 1]]]


def _cheapest_cut(src: Indices, tgt: Indices, world: int) -> list[int]:
    """Bounds of `world` consecutive parts; the least limit of cost is found by bisection."""
    most = len(src) * int(src.max(initial=0) + tgt.max(initial=0))
    too_low, enough = 0, most
    bounds = _cut(src, tgt, enough, world) or [0] * (world + 1)
    while enough - too_low > 1:
        limit = (too_low + enough) // 2
        if (found := _cut(src, tgt, limit, world)) is None:
            too_low = limit
        else:
            bounds, enough = found, limit
    return bounds


def _cut(src: Indices, tgt: Indices, limit: int, world: int) -> list[int] | None:
    """Bounds of parts that cost at most `limit` each, the last ones perhaps empty; None if `world` do not suffice."""
    bounds = [0]
    for _ in range(world):
        start = bounds[-1]
        longest = np.maximum.accumulate(src[start:]) + np.maximum.accumulate(tgt[start:])
        costs = longest * np.arange(1, len(longest) + 1)
        bounds.append(start + int(np.searchsorted(costs, limit, side="right")))
    return bounds if bounds[-1] == len(src) else None
