"""The linear twin of `qkv.functional.lsh.lsh_attention`: sorted by bucket, chunk after chunk, round after round.

Nothing of size length x length is materialised, and a round saves nothing: the backward pass recomputes the
weights from the logarithm Z_i of the denominator of the union, as exp(s_ij - log N_ij - Z_i).
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from qkv.core.devices import autocast_dtype, surely_all
from qkv.core.shapes import ContextHeads, Heads, KeyHeads, ValueHeads
from qkv.functional.lsh import SELF_LOGIT, Buckets
from qkv.kernels.dropout import dropout_mask

NOBODY = 1 << 30
"""The code of a key that no query finds."""


def assign_buckets(
    x: Float[Tensor, "B H n E"],
    rotations: Float[Tensor, "two rounds H E columns"],
    sizes: Int[Tensor, "B two"],
) -> Int[Tensor, "rounds B H n"]:
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
            if surely_all(size == 1):
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
    """[rounds, rows · length]: the position at each place."""
    ranks: Tensor
    """[rounds, rows · length]: the place of each position, the inverse of `places`."""
    q_codes: Tensor
    """[rounds, rows · length]"""
    k_codes: Tensor
    chunk: int
    length: int

    def query_places(self, number: int) -> Tensor:
        """[groups, chunk] in the order of a round; a group is one chunk of a row."""
        return self.places[number].view(-1, self.chunk)

    def key_places(self, number: int) -> Tensor:
        """[groups, 2 chunk]: the previous chunk and its own. If a row has one chunk, there is no previous one.

        The first chunk is preceded by the last one, whose codes are too large to match.
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
        """[groups, 2 chunk, E] of `key_places`: sums the gradients of a key from its group and the next one.

        Overwrites `x`.
        """
        ranks = self.ranks[number]
        if self.length == self.chunk:
            return x.flatten(0, 1).index_select(0, ranks)
        before, own = (part.unflatten(0, (-1, self.length // self.chunk)) for part in x.split(self.chunk, dim=1))
        own[:, :-1] += before[:, 1:]
        return x.flatten(0, 1).index_select(0, ranks + (ranks // self.chunk + 1) * self.chunk)


def sort_by_bucket(buckets: Buckets, chunk: int, same_bucket: bool, keep: Bool[Tensor, "B Q"] | None) -> Order:
    """A stable sort, so positions of a bucket keep their order; padding goes last and finds nothing."""
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


BLOCK = 1 << 18
"""Scores computed at a time: few enough to stay in a core's cache."""
MASKED = -1e30
"""The additive mask: added to the logit of a masked key."""


def lsh_attention(
    q: Heads,
    k: KeyHeads,
    v: ValueHeads,
    buckets: Buckets,
    chunk: int,
    same_bucket: bool = True,
    is_causal: bool = False,
    keep: Bool[Tensor, "B Q"] | None = None,
    dropout: float = 0.0,
) -> ContextHeads:
    """One softmax over the union of `found_pairs(buckets, chunk, same_bucket, keep)`; padding gets 0.

    `dropout` is applied after the softmax, to the weight of a pair in each round that found it.
    """
    if low := autocast_dtype(q.device):
        q, k, v = q.to(low), k.to(low), v.to(low)
    order = sort_by_bucket(buckets, min(chunk, q.shape[2]), same_bucket, keep)
    rows = [F.pad(x, (0, 0, 0, order.length - x.shape[2])).flatten(0, 2) for x in (q, k, v)]
    seed = int(torch.empty((), dtype=torch.int64).random_()) if dropout else 0
    output: Tensor = _LshAttention.apply(*rows, order, is_causal, dropout, seed)
    return output.view(*q.shape[:2], order.length, -1)[:, :, : q.shape[2]]


class _LshAttention(torch.autograd.Function):
    """On [rows · length, width]; a row is one head of one sentence."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, order: Order, is_causal: bool, rate: float, seed: int
    ) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        output = torch.zeros_like(v, dtype=wide)
        total = output.new_full(v.shape[:1], -torch.inf)
        outputs, z = (torch.empty_like(x).unflatten(0, (-1, order.chunk)) for x in (output, total))
        for number in range(len(order.places)):
            for block in _blocks(q, k, v, order, number, is_causal, (rate, seed)):
                weights, z[block.at] = block.weights()
                outputs[block.at] = torch.bmm(_times(weights, block.dropout(weights)).to(v.dtype), block.v)
            output, total = _combine(output, total, order.back(outputs, number), order.back(z, number))
        lost = total < MASKED / 2
        output = output.masked_fill_(lost.unsqueeze(-1), 0).to(v.dtype)
        ctx.save_for_backward(q, k, v, output, total.masked_fill_(lost, 0), *order[:4])
        ctx.sizes, ctx.options = order[4:], (is_causal, (rate, seed))
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, output, total, *indices = ctx.saved_tensors
        order = Order(*indices, *ctx.sizes)
        wide, scale = total.dtype, 1 / math.sqrt(q.shape[-1])
        # Σ_j A_ij ∂L/∂A_ij, the part of the softmax's derivative that all keys of a query share.
        shared = (upstream.to(wide) * output).sum(dim=-1)
        d_q, d_k, d_v = (torch.zeros_like(x, dtype=wide) for x in (q, k, v))
        groups, keys = order.key_places(0).shape
        q_part = d_q.new_empty(groups, order.chunk, q.shape[-1])
        k_part, v_part = (x.new_empty(groups, keys, x.shape[-1]) for x in (d_k, d_v))
        for number in range(len(order.places)):
            for block in _blocks(q, k, v, order, number, *ctx.options):
                g = block.of_queries(upstream.to(v.dtype))
                weights, z = block.weights()
                weights *= torch.exp(z - block.of_queries(total)).unsqueeze(-1)
                dropped = block.dropout(weights)
                v_part[block.at] = torch.bmm(_times(weights, dropped).to(g.dtype).transpose(1, 2), g)
                d_weights = _times(torch.bmm(g, block.v.transpose(1, 2)).to(wide), dropped)
                d_scores = d_weights.sub_(block.of_queries(shared).unsqueeze(-1)).mul_(weights).to(q.dtype)
                q_part[block.at] = torch.bmm(d_scores, block.k)
                k_part[block.at] = torch.bmm(d_scores.transpose(1, 2), block.q)
            d_q.add_(order.back(q_part, number), alpha=scale)
            d_k.add_(order.sum_back(k_part, number))
            d_v.add_(order.sum_back(v_part, number))
        return d_q.to(q.dtype), d_k.to(k.dtype), d_v.to(v.dtype), None, None, None, None


def _combine(output: Tensor, total: Tensor, new: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """o = Σ_r exp(z_r - logsumexp_r z_r) o_r, for one more round."""
    both = torch.logaddexp(total, z)
    old_share, new_share = torch.exp(total - both).unsqueeze(-1), torch.exp(z - both).unsqueeze(-1)
    return output.mul_(old_share).addcmul_(new, new_share), both


def _times(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask


class _Block(NamedTuple):
    """Some chunks of one round, g of them, each with c queries and the keys of its own and the previous chunk."""

    at: slice
    places: Tensor
    """[g, c] of the queries."""
    q: Tensor
    """Scaled by 1 / √d_k."""
    k: Tensor
    v: Tensor
    q_codes: Tensor
    """[rounds, g, c]: the codes of all rounds tell how many of them found a pair."""
    k_codes: Tensor
    q_pos: Tensor
    k_pos: Tensor
    number: int
    is_causal: bool
    rate: float
    seed: int

    def of_queries(self, x: Tensor) -> Tensor:
        return _rows(x, self.places)

    def weights(self) -> tuple[Tensor, Tensor]:
        """softmax(s_ij - log N_ij) over the keys that this round found, and the logarithm of its denominator."""
        logits = self.logits()
        weights = torch.softmax(logits, dim=-1)
        # The largest weight is exp(largest logit - z). A logsumexp would take many times longer, because of
        # the exponentials that are too small for a float.
        return weights, logits.amax(dim=-1) - weights.amax(dim=-1).log_()

    def logits(self) -> Tensor:
        """Masks are additive floats: on a CPU that takes a tenth of the time of `masked_fill`.

        The logit of a position with itself is lowered, not replaced. The result is the same: its weight is 0, or 1 if
        it finds no other key.
        """
        scores = torch.bmm(self.q, self.k.transpose(1, 2))
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        not_found, mask = torch.empty_like(scores), torch.empty_like(scores)
        q_pos, k_pos = self.q_pos.unsqueeze(-1), self.k_pos.unsqueeze(-2)
        scores.add_(torch.eq(q_pos, k_pos, out=mask), alpha=SELF_LOGIT)
        if self.is_causal:
            scores.add_(torch.lt(q_pos, k_pos, out=mask), alpha=MASKED)
        _not_found(self.q_codes[self.number], self.k_codes[self.number], out=not_found)
        if len(self.q_codes) > 1:
            missed = not_found.clone()
            for other in (number for number in range(len(self.q_codes)) if number != self.number):
                missed += _not_found(self.q_codes[other], self.k_codes[other], out=mask)
            scores -= missed.neg_().add_(len(self.q_codes)).clamp_(min=1).log_()
        return scores.add_(not_found, alpha=MASKED)

    def dropout(self, like: Tensor) -> Tensor | None:
        """The same mask in every call."""
        if self.rate == 0:
            return None
        return dropout_mask(like, self.rate, torch.Generator().manual_seed(self.seed))


def _not_found(q_codes: Tensor, k_codes: Tensor, out: Tensor) -> Tensor:
    """1 unless code_i - code_j is 0 or 1."""
    torch.sub(q_codes.unsqueeze(-1) - 0.5, k_codes.unsqueeze(-2), out=out)
    return torch.gt(out.abs_(), 1, out=out)


def _rows(x: Tensor, places: Tensor) -> Tensor:
    """x[places], gathered block by block so that it stays in the cache."""
    return x.index_select(0, places.flatten()).view(*places.shape, *x.shape[1:])


def _blocks(
    q: Tensor, k: Tensor, v: Tensor, order: Order, number: int, is_causal: bool, dropout: tuple[float, int]
) -> Iterator[_Block]:
    """Round `number`, a few chunks at a time."""
    q_places, k_places = order.query_places(number), order.key_places(number)
    wide = torch.promote_types(q.dtype, torch.float32)
    rate, seed = dropout
    step = max(1, BLOCK // (order.chunk * k_places.shape[1]))
    for start in range(0, len(q_places), step):
        at = slice(start, start + step)
        queries, keys = q_places[at], k_places[at]
        yield _Block(
            at,
            queries,
            _rows(q, queries).mul_(1 / math.sqrt(q.shape[-1])),
            _rows(k, keys),
            _rows(v, keys),
            order.q_codes[:, queries].to(wide),
            order.k_codes[:, keys].to(wide),
            (queries % order.length).to(wide),
            (keys % order.length).to(wide),
            number,
            is_causal,
            rate,
            (seed + number * len(q_places) + start) % (1 << 63),
        )
