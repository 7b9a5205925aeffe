"""`kind: npz`: series as arrays of a NumPy archive."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from qkv.core.errors import DataError
from qkv.data.arrays.npz import npz_names, npz_whole
from qkv.data.series.sources import SeriesSource, SeriesTable, chosen_columns, series_sources


@series_sources.register
class SeriesArchive(SeriesSource):
    """`numpy.savez(path, co2=..., temperature=...)`: an array of numbers for each series, all of one length."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "series.npz"}

    kind: Literal["npz"] = "npz"

    def table(self, path: Path) -> SeriesTable:
        there = npz_names(path)
        names = [there[number] for number in chosen_columns(there, self.columns, None, path)]
        arrays = [npz_whole(path, name) for name in names]
        for name, array in zip(names, arrays, strict=True):
            if array.ndim != 1 or array.dtype.kind not in "iuf":
                raise DataError(
                    f"{path}: the array {name!r} must be a series of numbers, not {array.dtype} {list(array.shape)}; "
                    "choose others by columns"
                )
            if len(array) != len(arrays[0]):
                raise DataError(
                    f"{path}: {names[0]!r} has {len(arrays[0]):,} values and {name!r} has {len(array):,}; save them in "
                    "two files, or choose one by columns"
                )
        return SeriesTable(names, np.stack(arrays, axis=1).astype(np.float64), range(1, len(arrays[0]) + 1))
