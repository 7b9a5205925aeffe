"""Few lengths for compiled code: the sides of a batch are padded to the next of a handful of them.

Code that `torch.compile` writes serves all lengths, but the kernels under it are chosen, tuned and cached by shape. A
pass does not depend on padding, so only the speed changes, and what dropout draws.
"""

from collections.abc import Sequence, Sized

import torch.nn.functional as F
from torch import Tensor

from qkv.data.batch import Batch
from qkv.data.tasks.base import Store, Stream, TrainingBatch
from qkv.models.base import MaxLengths

SMALLEST = 4
PER_OCTAVE = 4
"""Lengths between a power of two and the next: at most a quarter of a side is added."""


def bucket(length: int, longest: int | None = None) -> int:
    """The length that a side of `length` positions is padded to; no more than `longest`, if it fits there."""
    if length <= 1:
        # Nothing, or a single label.
        return length
    step = max(SMALLEST, (1 << (length - 1).bit_length()) // (2 * PER_OCTAVE))
    padded = -(-length // step) * step
    return padded if longest is None else max(length, min(padded, longest))


def with_few_lengths(part: Tensor, longest: int | None = None) -> Tensor:
    """A tensor of a batch [B, ...], padded: 0 is the id of padding in every vocabulary, and False in every mask."""
    widths = [bucket(size, longest) - size for size in part.shape[1:]]
    return F.pad(part, [place for width in reversed(widths) for place in (0, width)])


class BucketedStream:
    """A stream whose batches of tokens have few lengths."""

    def __init__(self, stream: Stream, limits: MaxLengths) -> None:
        """`limits`: what the model can read and write."""
        self.inner = stream
        self.unit, self.batch_tokens = stream.unit, stream.batch_tokens
        self.longest = min((limit for limit in limits if limit is not None), default=None)

    @property
    def store(self) -> Store:
        return self.inner.store

    def plan(self, epoch: int) -> Sized:
        return self.inner.plan(epoch)

    def names(self, examples: Sequence[int]) -> list[str]:
        return self.inner.names(examples)

    def batch(self, epoch: int, index: int, rank: int = 0, world: int = 1) -> TrainingBatch:
        """The batch of the inner stream; images and series have one size anyway."""
        batch = self.inner.batch(epoch, index, rank, world)
        if not isinstance(batch, Batch):
            return batch
        return batch.each(lambda part: with_few_lengths(part, self.longest), batch.examples)
