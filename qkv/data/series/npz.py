"""`kind: npz`: series as arrays of a NumPy archive."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from qkv.core.errors import DataError
from qkv.data.arrays.npz import npz_array, npz_names, npz_rows
from qkv.data.arrays.stored import write_rows
from qkv.data.build import CountProgress
from qkv.data.series.pieces import PIECE
from qkv.data.series.sources import SeriesSource, SeriesTable, chosen_columns, series_sources


@series_sources.register
class SeriesArchive(SeriesSource):
    """`numpy.savez(path, co2=..., temperature=...)`: an array of numbers for each series, all of one length."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "series.npz"}

    kind: Literal["npz"] = "npz"

    def table(self, path: Path, scratch: Path, progress: CountProgress | None) -> SeriesTable:
        there = npz_names(path)
        names = [there[number] for number in chosen_columns(there, self.columns, None, path)]
        arrays = [npz_array(path, name) for name in names]
        rows = arrays[0].shape[0] if arrays[0].shape else 0
        for name, (shape, dtype) in zip(names, arrays, strict=True):
            if len(shape) != 1 or dtype.kind not in "iuf":
                raise DataError(
                    f"{path}: the array {name!r} must be a series of numbers, not {dtype} {list(shape)}; "
                    "choose others by columns"
                )
            if shape[0] != rows:
                raise DataError(
                    f"{path}: {names[0]!r} has {rows:,} values and {name!r} has {shape[0]:,}; save them in "
                    "two files, or choose one by columns"
                )
        file = scratch / "columns.npy"
        write_rows(file, (), np.float64, (chunk for name in names for chunk in npz_rows(path, name, PIECE)))
        columns = np.load(file, mmap_mode="r+").reshape(len(names), rows)
        return SeriesTable(names, columns, range(1, rows + 1))
