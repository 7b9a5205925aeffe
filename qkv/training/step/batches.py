"""The batches of each update on the device of the run; on an accelerator, those of the next one are made meanwhile."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch

from qkv.core.devices import CPU
from qkv.data.tasks.base import Stream
from qkv.training.step.update import BatchPart, derived_seed

Position = tuple[int, range]
"""An epoch, and the numbers of some batches of its plan."""
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Of splitmix64, which spreads every bit of a number over all others."""


def batch_fingerprint(examples: Sequence[int], *position: int) -> int:
    """A sum of 32 bits for each example, which depend on the position: the shares of several ranks add up to the whole.

    So a log shows whether a run of another number of processes learned from the same batches in the same order.
    """
    mixed = np.asarray(examples, dtype=np.uint64) + np.uint64(derived_seed(*position))
    for factor in FACTORS:
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(factor)
    return int((mixed >> np.uint64(32)).sum())


class BatchSource:
    """Takes the rows of one rank from a stream.

    A batch is a function of its position alone, so what was made in advance is what would be made now: a run resumes
    exactly, wherever the thread had got to.
    """

    def __init__(self, stream: Stream, rank: int, world: int, device: torch.device, fill: bool = False) -> None:
        """`fill`: where a batch has no row for this rank, give it those of rank 0."""
        self.stream, self.rank, self.world, self.device, self.fill = stream, rank, world, device, fill
        self._thread = None if device == CPU else ThreadPoolExecutor(1, "qkv-batches")
        self._coming: tuple[Position, Future[list[BatchPart]]] | None = None

    def take(self, epoch: int, numbers: range) -> list[BatchPart]:
        """The batches that have rows for this rank, or all of them, on the device."""
        coming, self._coming = self._coming, None
        known = coming is not None and coming[0] == (epoch, numbers)
        made = coming[1].result() if coming is not None and known else self._make(epoch, numbers)
        return [BatchPart(part.batch.to(self.device), part.own) for part in made]

    def expect(self, epoch: int, numbers: range) -> None:
        """Begin to make these batches, which are probably taken next."""
        if self._thread is not None and numbers:
            self._coming = (epoch, numbers), self._thread.submit(self._make, epoch, numbers)

    def _make(self, epoch: int, numbers: range) -> list[BatchPart]:
        batches = [(number, self.stream.batch(epoch, number, self.rank, self.world)) for number in numbers]
        return [
            BatchPart(batch) if len(batch) else BatchPart(self.stream.batch(epoch, number, 0, self.world), own=False)
            for number, batch in batches
            if self.fill or len(batch)
        ]
