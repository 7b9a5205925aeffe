"""Where LSH attention puts each position: its bucket in each round, and its place in the order of the buckets."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from qkv.functional.lsh import Buckets

NOBODY = 1 << 30
"""The code of a key that no query finds."""


def assign_buckets(
    x: Float[Tensor, "B H n E"],
    rotations: Float[Tensor, "two R H E columns"],
    sizes: Int[Tensor, "B two"],
) -> Int[Tensor, "R B H n"]:
    """`hash_buckets` of each row with as many buckets as the row has, b = b_1 · b_2 (`combine_hashes`).

    The rotation of a row is the first b / 2 columns. Where |x R| is largest, its sign says which half of
    [x R; -x R] holds the maximum, so that the two halves need not be written side by side.
    """
    halves = (sizes // 2).clamp(min=1)
    columns = torch.arange(rotations.shape[-1], device=x.device)
    found = []
    for rotation in rotations.unbind(1):
        hashes = []
        for stage, (half, size) in enumerate(zip(halves.unbind(1), sizes.unbind(1), strict=True)):
            if bool((size == 1).all()):
                hashes.append(torch.zeros_like(x[..., 0], dtype=torch.int64))
                continue
            half, size = half[:, None, None, None], size[:, None, None, None]
            turned = x @ rotation[stage]
            column = turned.abs().masked_fill_(columns >= half, -1.0).argmax(dim=-1, keepdim=True)
            negative = turned.gather(-1, column) < 0
            hashes.append(((column + negative * half) % size).squeeze(-1))
        found.append(hashes[0] * sizes[:, 1, None, None] + hashes[1])
    return torch.stack(found)


class Order(NamedTuple):
    """The order of [rows, length] positions in each round; `chunk` divides the length. Rows are laid end to end.

    In each round a position has a code, chunk + 2 · bucket. Query i finds key j exactly when code_i - code_j is 0 or 1:
    a later bucket is never in an earlier chunk, so that the codes of different buckets differ by 2 or more.
    """

    places: Tensor
    """[R, rows · length]: which position stands there."""
    ranks: Tensor
    """[R, rows · length]: where a position stands, the inverse of `places`."""
    q_codes: Tensor
    """[R, rows · length]"""
    k_codes: Tensor
    chunk: int
    length: int

    def query_places(self, number: int) -> Tensor:
        """[groups, chunk] in the order of a round; a group is one chunk of a row."""
        return self.places[number].view(-1, self.chunk)

    def key_places(self, number: int) -> Tensor:
        """[groups, 2 chunk]: the chunk before, and the own one. If a row is one chunk, there is none before.

        Before the first chunk stands the last one, whose codes are too large to be found.
        """
        own = self.query_places(number)
        if self.length == self.chunk:
            return own
        before = own.view(-1, self.length // self.chunk, self.chunk).roll(1, dims=1)
        return torch.cat([before.flatten(0, 1), own], dim=1)

    def back(self, x: Tensor, number: int) -> Tensor:
        """[groups, chunk, ...] in the order of a round to [rows · length, ...]."""
        return x.flatten(0, 1).index_select(0, self.ranks[number])

    def sum_back(self, x: Tensor, number: int) -> Tensor:
        """[groups, 2 chunk, E] of `key_places`: what came for a key in its own group and in the next one is added.

        Overwrites `x`.
        """
        ranks = self.ranks[number]
        if self.length == self.chunk:
            return x.flatten(0, 1).index_select(0, ranks)
        before, own = (part.unflatten(0, (-1, self.length // self.chunk)) for part in x.split(self.chunk, dim=1))
        own[:, :-1] += before[:, 1:]
        return x.flatten(0, 1).index_select(0, ranks + (ranks // self.chunk + 1) * self.chunk)


def sort_by_bucket(buckets: Buckets, chunk: int, same_bucket: bool, keep: Bool[Tensor, "B Q"] | None) -> Order:
    """Stably, so positions of a bucket keep their order; padding goes behind all the others and finds nobody."""
    _, batch, heads, length = buckets.shape
    missing = -length % chunk
    real = torch.ones(batch, length, dtype=torch.bool, device=buckets.device) if keep is None else keep
    real = F.pad(real, (0, missing))[:, None]
    buckets = F.pad(buckets, (0, missing)).where(real, buckets.max() + 1)
    order = torch.argsort(buckets, dim=-1, stable=True)
    steps = torch.arange(order.shape[-1], device=order.device)
    ranks = torch.empty_like(order).scatter_(-1, order, steps.expand_as(order))
    chunks = ranks // chunk
    codes = (chunks + 2 * buckets if same_bucket else chunks).int()
    row_starts = torch.arange(0, batch * heads * len(steps), len(steps), device=order.device).view(batch, heads, 1)
    return Order(
        places=(order + row_starts).flatten(1),
        ranks=(ranks + row_starts).flatten(1),
        q_codes=codes.where(real, -NOBODY).flatten(1),
        k_codes=codes.where(real, NOBODY).flatten(1),
        chunk=chunk,
        length=len(steps),
    )
