"""Series of many pieces: the same as if they were taken whole, in memory that does not grow with the table."""

from pathlib import Path

import numpy as np
import pytest

from qkv.data import lines
from qkv.data.series import csv
from qkv.data.series.csv import CsvSeries
from qkv.data.series.gaps import fill_gaps, find_gaps
from qkv.data.series.npz import SeriesArchive
from qkv.data.series.pieces import PIECE, Values, standard_deviation
from qkv.data.series.repeats import count_constant
from qkv.data.series.sources import SeriesSource
from qkv.data.series.store import SeriesPart, SeriesStore, build_series_store
from tests.support.memory import peak_of

LENGTH = 4 * PIECE + 100
GAPS = {
    "here and there": np.flatnonzero(np.random.default_rng(1).random(LENGTH) < 0.3),
    "at the ends": np.r_[: PIECE + 5, LENGTH - 7 : LENGTH],
    "across the ends of pieces": np.r_[PIECE - 3 : PIECE + 4, 2 * PIECE : 2 * PIECE + 1, 3 * PIECE - 1 : 3 * PIECE],
    "of a whole piece and more": np.r_[PIECE - 10 : 3 * PIECE + 10],
    "but for one value": np.delete(np.arange(LENGTH), 2 * PIECE + 17),
}
COLUMNS = 8


def noise(length: int = LENGTH, columns: int = 1) -> Values:
    return np.random.default_rng(0).normal(size=(columns, length)).cumsum(axis=1)


def stored(folder: Path, source: SeriesSource) -> SeriesStore:
    build_series_store(folder / "store", SeriesPart("train", (source,), folder), "")
    return SeriesStore.open(folder / "store")


@pytest.mark.parametrize("gaps", GAPS.values(), ids=GAPS)
def test_gaps_are_filled_as_numpy_does_it(gaps: Values) -> None:
    values = noise()[0]
    values[gaps] = np.nan
    known = np.flatnonzero(np.isfinite(values))
    wanted = np.interp(np.arange(LENGTH), known, values[known])
    assert find_gaps(values) == (len(gaps), gaps[0])
    fill_gaps(values)
    np.testing.assert_array_equal(values, wanted)
    assert find_gaps(values)[0] == 0


def test_the_standard_deviation_is_that_of_numpy() -> None:
    values = 1e6 + noise()[0]
    assert standard_deviation(values) == pytest.approx(values.std(), rel=1e-12)


def test_constant_windows_are_counted_across_pieces(tmp_path: Path) -> None:
    values = noise()[0].round(1)
    for first in (10, PIECE - 9, 2 * PIECE + 3):
        values[first : first + 20] = 7
    np.savez(tmp_path / "a.npz", x=values)
    windows = np.lib.stride_tricks.sliding_window_view(values[:-2], 6)
    store = stored(tmp_path, SeriesArchive(path=Path("a.npz")))
    assert count_constant(store, context=6, horizon=2) == (np.ptp(windows, axis=1) == 0).sum() >= 45


def test_a_long_table_is_stored_as_it_is(tmp_path: Path) -> None:
    values = noise(PIECE // 3, COLUMNS)
    names = [f"x{column}" for column in range(COLUMNS)]
    np.savez(tmp_path / "a.npz", **dict(zip(names, values, strict=True)))
    write_table(tmp_path / "a.csv", values)
    for source in (SeriesArchive(path=Path("a.npz")), CsvSeries(path=Path("a.csv"))):
        store = stored(tmp_path, source)
        assert [series.name for series in store.series] == names
        np.testing.assert_array_equal([series.values for series in store.series], values)


def peak_of_storing(folder: Path, source: SeriesSource) -> int:
    part = SeriesPart("train", (source,), folder)
    return peak_of(lambda: build_series_store(folder / "new", part, ""))


def test_memory_does_not_grow_with_an_archive(tmp_path: Path) -> None:
    """Gaps are filled on the way."""
    peaks = []
    for length in (2 * PIECE, 5 * PIECE):
        values = noise(length, COLUMNS)
        values[3, PIECE - 20 : PIECE + 20] = np.nan
        folder = tmp_path / str(length)
        folder.mkdir()
        np.savez(folder / "a.npz", **{f"x{column}": own for column, own in enumerate(values)})
        peaks.append(peak_of_storing(folder, SeriesArchive(path=Path("a.npz"), missing="interpolate")))
    assert peaks[1] - peaks[0] < 3 * PIECE * COLUMNS


def test_memory_does_not_grow_with_a_table_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small buffers, so that a short table is many times as large."""
    monkeypatch.setattr(lines, "BLOCK", 1 << 14)
    monkeypatch.setattr(csv, "PIECE", 1 << 12)
    peaks = []
    for length in (5_000, 15_000):
        folder = tmp_path / str(length)
        folder.mkdir()
        write_table(folder / "a.csv", noise(length, COLUMNS).round(6))
        peaks.append(peak_of_storing(folder, CsvSeries(path=Path("a.csv"))))
    # The numbers alone would be eight bytes each.
    assert peaks[1] - peaks[0] < 10_000 * COLUMNS * 2


def write_table(path: Path, values: Values) -> None:
    with path.open("w") as file:
        file.write(",".join(f"x{column}" for column in range(len(values))) + "\n")
        for row in values.T.tolist():
            file.write(",".join(map(repr, row)) + "\n")
