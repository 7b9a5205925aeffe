"""The order of an epoch: a pure function of (lengths, weights, seed, epoch, budget).

Nothing is drawn while training, so resuming in the middle of an epoch is random access by a number, and the plan
is the same for every world size. Pairs are shuffled, sorted by length, cut into batches, and the batches
shuffled. Permutations are the order of raw random keys: they need only numpy's bit streams, which never change,
and not its shuffling, which may.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.core.errors import UsageError
from qkv.data.store import CorpusRange, LengthArray

Indices = npt.NDArray[np.integer[Any]]
MAX_SORTED_LENGTH = (1 << 15) - 1
"""Pairs longer than this are sorted as if they had this length: only their padding suffers."""


@dataclass(frozen=True)
class Budget:
    """rows x max(longest source, longest target) <= tokens, and rows <= pairs."""

    tokens: int
    pairs: int | None = None


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """The batches of an epoch: batch i is `rows[bounds[p] : bounds[p + 1]]` with p = `shuffled[i]`."""

    rows: Indices
    bounds: Indices
    shuffled: Indices

    def __len__(self) -> int:
        return len(self.shuffled)

    def batch(self, index: int) -> Indices:
        """The pairs of batch `index`."""
        if not 0 <= index < len(self):
            raise IndexError(f"batch {index} of {len(self)}")
        place = int(self.shuffled[index])
        return self.rows[int(self.bounds[place]) : int(self.bounds[place + 1])]

    def padding(self, src_len: LengthArray, tgt_len: LengthArray) -> float:
        """The fraction of all positions of both sides that is padding."""
        starts, rows = self.bounds[:-1], np.diff(self.bounds)
        real = padded = 0
        for lengths in (src_len[self.rows], tgt_len[self.rows]):
            real += int(lengths.sum(dtype=np.int64))
            padded += int((np.maximum.reduceat(lengths, starts).astype(np.int64) * rows).sum())
        return 1 - real / padded


def epoch_plan(
    src_len: LengthArray,
    tgt_len: LengthArray,
    ranges: Sequence[CorpusRange],
    seed: int,
    epoch: int,
    budget: Budget,
    limit: int | None = None,
) -> BatchPlan:
    """The batches of `epoch` (counted from 0), of pairs with at most `limit` tokens a side."""
    rows = _chosen(ranges, seed, epoch)
    longest = np.maximum(src_len, tgt_len)
    # Over all pairs, not only those of this epoch, so that the error comes at the start of a run.
    if longest.size and int(longest.max()) > budget.tokens:
        raise UsageError(
            f"batch.tokens is {budget.tokens}, but the longest pair has {int(longest.max())} tokens; raise "
            "batch.tokens, or lower data.max_src_tokens and data.max_tgt_tokens"
        )
    if limit is not None:
        rows = rows[longest[rows] <= limit]
        if not len(rows):
            raise UsageError(
                f"batch.curriculum: epoch {epoch + 1} has no pair of at most {limit} tokens; raise "
                "batch.curriculum.start"
            )
    bits = _bits(seed, epoch, 0)
    order = _length_order(src_len[rows], tgt_len[rows], bits)
    bounds = _cut(longest[rows[order]], budget)
    shuffled = _permutation(len(bounds) - 1, bits)
    return BatchPlan(rows[order], bounds, shuffled)


class Planned(ABC):
    """Base class of streams: keeps the plan of the latest epoch asked for."""

    _latest: tuple[int, BatchPlan] | None = None

    def plan(self, epoch: int) -> BatchPlan:
        """The batches of `epoch` (counted from 0)."""
        if self._latest is None or self._latest[0] != epoch:
            self._latest = (epoch, self.new_plan(epoch))
        return self._latest[1]

    @abstractmethod
    def new_plan(self, epoch: int) -> BatchPlan:
        """A pure function of the data, the seed and `epoch`."""


class PlannedEqually(Planned):
    """Base class of streams whose examples count as one token each, such as images."""

    def __init__(self, ranges: Sequence[CorpusRange], batch_tokens: int, seed: int) -> None:
        self.ranges, self.batch_tokens, self.seed = ranges, batch_tokens, seed
        self._ones = np.ones(max(own.stop for own in ranges), dtype=np.uint32)

    def new_plan(self, epoch: int) -> BatchPlan:
        return epoch_plan(self._ones, self._ones, self.ranges, self.seed, epoch, Budget(self.batch_tokens))


def permuted(ranges: Sequence[CorpusRange], seed: int, epoch: int) -> Indices:
    """The examples of `epoch` in random order, as often as their weights say."""
    rows = _chosen(ranges, seed, epoch)
    return rows[_permutation(len(rows), _bits(seed, epoch, 0))]


def _bits(*key: int) -> np.random.PCG64:
    return np.random.PCG64(np.random.SeedSequence(key))


def _permutation(size: int, bits: np.random.PCG64) -> Indices:
    return np.argsort(bits.random_raw(size), kind="stable")


def _chosen(ranges: Sequence[CorpusRange], seed: int, epoch: int) -> Indices:
    """Every pair floor(weight) times; for the fraction, a window that advances each epoch over a fixed permutation, so
    that all pairs get their turn.
    """
    kind = np.dtype(np.uint32 if max(r.stop for r in ranges) < 2**32 else np.int64)
    parts: list[Indices] = []
    for number, (start, stop, weight) in enumerate(ranges):
        whole, size = int(weight), stop - start
        parts += [np.arange(start, stop, dtype=kind)] * whole
        part = min(size, max(1, round((weight - whole) * size))) if weight > whole else 0
        if part:
            window = (np.arange(part) + epoch * part) % size
            parts.append((start + _permutation(size, _bits(seed, number, 1))[window]).astype(kind))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _length_order(src_len: LengthArray, tgt_len: LengthArray, bits: np.random.PCG64) -> Indices:
    """Sort by the longer side; then by source minus target length, plus up to two tokens at random.

    The second key goes up and down in turn, so that neighbours across a change of the first are alike too. Its
    noise mixes the batches of different epochs. Both keys and the tie-breaking bits are one 64-bit number:
    15 bits of length, then 48 bits of difference in fixed point (31 bits of fraction).
    """
    src = np.minimum(src_len, MAX_SORTED_LENGTH).astype(np.int32)
    tgt = np.minimum(tgt_len, MAX_SORTED_LENGTH).astype(np.int32)
    first = np.maximum(src, tgt)
    key = (src - tgt + MAX_SORTED_LENGTH).astype(np.int64)
    key <<= 31
    key += (bits.random_raw(len(src)) >> np.uint64(32)).view(np.int64)
    np.subtract((1 << 48) - 1, key, out=key, where=(first & 1).astype(bool))
    key += first.astype(np.int64) << 48
    return np.argsort(key, kind="stable")


def _cut(longest: LengthArray, budget: Budget) -> Indices:
    """Bounds of consecutive batches, each as large as the budget allows."""
    bounds = [0]
    while (start := bounds[-1]) < len(longest):
        most = budget.tokens // int(longest[start])
        window = longest[start : start + min(most, budget.pairs or most)].astype(np.int64)
        positions = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        bounds.append(start + int(np.searchsorted(positions, budget.tokens, side="right")))
    return np.array(bounds, dtype=np.int64)
