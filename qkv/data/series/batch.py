"""Batches of windows: any batch of any epoch by its number."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from qkv.core.devices import moved
from qkv.data.order import PlannedEqually, share
from qkv.data.series.pieces import Values, standard_deviation
from qkv.data.series.store import SeriesStore
from qkv.data.series.windows import find_windows
from qkv.data.store import CorpusRange


@dataclass(frozen=True)
class SeriesBatch:
    """Windows and what follows them; each series by itself, so there is one channel."""

    smaller_examples = "lower model.context"

    past: Float[Tensor, "B context 1"]
    future: Float[Tensor, "B horizon 1"]
    scale: Float[Tensor, " B"]
    """The standard deviation of the whole series: errors are measured in it."""
    examples: list[int]
    """Which windows these are, for diagnosis."""

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def size(self) -> str:
        """For a message."""
        return f"{len(self)} windows of {self.past.shape[1]} values"

    def to(self, device: torch.device | str) -> "SeriesBatch":
        """The same batch on `device`."""
        past, future, scale = (moved(tensor, device) for tensor in (self.past, self.future, self.scale))
        return SeriesBatch(past, future, scale, self.examples)

    def split(self) -> tuple["SeriesBatch", "SeriesBatch"]:
        """Two batches of half the windows, for when one does not fit in memory."""
        if len(self) < 2:
            raise ValueError("a batch of fewer than two windows cannot be split")
        middle = (len(self) + 1) // 2
        first, second = (
            SeriesBatch(self.past[rows], self.future[rows], self.scale[rows], self.examples[rows])
            for rows in (slice(middle), slice(middle, None))
        )
        return first, second


class SeriesStream(PlannedEqually):
    """The windows of a store in batches."""

    unit = "windows"

    def __init__(self, store: SeriesStore, context: int, horizon: int, windows_per_batch: int, seed: int) -> None:
        self.windows = find_windows(store, context, horizon)
        super().__init__([CorpusRange(0, len(self.windows), 1.0)], windows_per_batch, seed)
        self.store = store
        self.context, self.horizon = context, horizon
        self._scales = np.array([spread_of(series.values) for series in store.series])

    def batch(self, epoch: int, index: int, rank: int = 0, world: int = 1) -> SeriesBatch:
        """Batch `index` of `epoch`, or the rows of it that belong to `rank`; those may be none."""
        return self.windows_of(share(self.plan(epoch).batch(index), rank, world).tolist())

    def windows_of(self, rows: Sequence[int]) -> SeriesBatch:
        """The windows of these numbers."""
        width = self.context + self.horizon
        numbers, places = self.windows.at(rows)
        cut = np.empty((len(rows), width))
        for row, (number, place) in enumerate(zip(numbers.tolist(), places.tolist(), strict=True)):
            cut[row] = self.store.series[number].values[place - self.context : place + self.horizon]
        both = torch.from_numpy(cut).float()[..., None]
        scale = torch.from_numpy(self._scales[numbers]).float()
        return SeriesBatch(both[:, : self.context], both[:, self.context :], scale, list(rows))

    def names(self, examples: Sequence[int]) -> list[str]:
        """The series and the place of each window."""
        series, places = self.windows.at(examples)
        return [f"{self.store.series[s].name} at row {place + 1}" for s, place in zip(series, places, strict=True)]


def spread_of(values: Values) -> float:
    """The standard deviation; of a series that is constant up to rounding 1, since there is nothing to measure in."""
    spread = standard_deviation(values)
    largest = max(float(values.max()), -float(values.min()))
    return spread if spread > 4 * np.finfo(np.float64).eps * largest else 1.0
