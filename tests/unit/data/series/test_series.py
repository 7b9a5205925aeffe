"""Series from tables and archives, their store, and windows by number."""

from pathlib import Path

import numpy as np
import pytest
import torch

from qkv.core.errors import ConfigError, DataError
from qkv.data.series.batch import SeriesStream, spread_of
from qkv.data.series.csv import CsvSeries
from qkv.data.series.npz import SeriesArchive
from qkv.data.series.sources import SeriesSource
from qkv.data.series.store import SeriesPart, SeriesStore, build_series_store
from qkv.data.series.windows import find_windows

TABLE = "day,warm,wet\n" + "".join(f"2020-{day},{day},{100 - day}\n" for day in range(20))


def stored(tmp_path: Path, *sources: SeriesSource) -> SeriesStore:
    build_series_store(tmp_path / "store", SeriesPart("test", sources, tmp_path), "")
    return SeriesStore.open(tmp_path / "store")


def write(tmp_path: Path, text: str) -> Path:
    (tmp_path / "a.csv").write_text(text)
    return Path("a.csv")


def test_columns_of_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, TABLE)
    store = stored(
        tmp_path, CsvSeries(path=path, time="day"), CsvSeries(path=path, columns=("wet",), start=0.5, stop=0.8)
    )
    assert [(series.name, len(series.values), series.start) for series in store.series] == [
        ("warm", 20, 0),
        ("wet", 20, 0),
        ("wet", 16, 10),
    ]
    assert store.series[0].values.tolist() == list(range(20))
    assert store.series[2].values[-1] == 85
    assert store.report.lines() == ["46 values to forecast, in 3 series"]


def test_arrays_of_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", warm=np.arange(5), wet=np.arange(5.0) / 2, text=np.array(["a"]))
    store = stored(tmp_path, SeriesArchive(path=Path("a.npz"), columns=("wet", "warm")))
    assert [series.values.tolist() for series in store.series] == [[0, 0.5, 1, 1.5, 2], [0, 1, 2, 3, 4]]
    with pytest.raises(DataError, match="the array 'text' must be a series of numbers, not <U1"):
        stored(tmp_path, SeriesArchive(path=Path("a.npz")))
    np.savez(tmp_path / "a.npz", warm=np.arange(5), wet=np.arange(6))
    with pytest.raises(DataError, match="'warm' has 5 values and 'wet' has 6; save them in two files"):
        stored(tmp_path, SeriesArchive(path=Path("a.npz")))
    np.savez(tmp_path / "a.npz", warm=np.zeros(0), wet=np.zeros(0))
    with pytest.raises(DataError, match=r"no series has 2 values and 1 more to forecast \(the longest has 0\)"):
        find_windows(stored(tmp_path, SeriesArchive(path=Path("a.npz"))), 2, 1)


def test_missing_values_are_refused_or_interpolated(tmp_path: Path) -> None:
    path = write(tmp_path, "x\n1\n\n2\nNaN\n5\nNA\n")
    with pytest.raises(
        DataError, match=r"a\.csv:5: column 'x' has no value here \(2 are missing in all\); .*interpolate"
    ):
        stored(tmp_path, CsvSeries(path=path))
    assert stored(tmp_path, CsvSeries(path=path, missing="interpolate")).values.tolist() == [1, 2, 3.5, 5, 5]
    with pytest.raises(DataError, match="column 'x' has no values at all"):
        stored(tmp_path, CsvSeries(path=write(tmp_path, "x\nNA\nNA\n"), missing="interpolate"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; give a file with a header"),
        ("x,y\n", "has no row below its header"),
        ("x,y\n1,2\n3,much\n", r"a\.csv:3: 'much' in column 'y' is not a number; correct it"),
        ("x,y\n1,2\n3\n", r"a\.csv:3: has 1 columns, so 'y' is missing"),
        ("x,y,y\n1,2,3\n", r"a\.csv:1: has no single column 'y'; the columns are 'x', 'y', 'y'"),
        ("x\n1\n", r"a\.csv:1: has no single column 'y'; the columns are 'x'"),
        ('x,y\n\n1,2\n3,"4\n5,6\n', r"a\.csv:4: '4\\n5,6' in column 'y' is not a number"),
        ('x,y\n1,2\n3,"4\n' + 10_000 * "5,678901234567\n", r"a\.csv:3: '4\\n5,678.*…' in column 'y' is not a number"),
        ("x,y\n1,2\n3,4\r5,6\n", r"a\.csv:3: has a carriage return inside a line; save the file with lines that end"),
    ],
)
def test_bad_tables_are_refused_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        stored(tmp_path, CsvSeries(path=write(tmp_path, text), columns=("x", "y")))


def test_a_quote_that_is_not_closed_does_not_swallow_a_large_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'x,y\n1,2\n3,"4\n' + 1_300_000 * "5,678901234567\n")
    with pytest.raises(DataError, match=r"a\.csv:3: has a field of more .* is its closing quote missing"):
        stored(tmp_path, CsvSeries(path=path, columns=("x", "y")))


def test_a_part_must_have_a_beginning_before_its_end(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"start \(0.5\) must be below stop \(0.5\)"):
        CsvSeries(path=Path("a.csv"), start=0.5, stop=0.5)
    with pytest.raises(DataError, match=r"nowhere\.csv: no such file"):
        CsvSeries(path=Path("nowhere.csv")).read(Path("."), tmp_path)


@pytest.mark.parametrize("value", [0.0, 0.1, -273.15, 1e9])
def test_the_spread_of_a_constant_series_is_one(value: float) -> None:
    constant = np.full(1000, value)
    assert spread_of(constant) == 1.0
    constant[0] += 1e-3
    assert spread_of(constant) == constant.std()


def test_windows_read_before_their_part_and_forecast_inside_it(tmp_path: Path) -> None:
    path = write(tmp_path, TABLE)
    store = stored(
        tmp_path,
        CsvSeries(path=path, columns=("warm",), start=0.5, stop=0.8),
        CsvSeries(path=path, columns=("wet",), stop=0.4),
    )
    stream = SeriesStream(store, context=4, horizon=3, windows_per_batch=3, seed=1)
    # warm: forecasts of 10 ... 15 from 10, 11, 12, 13 on; wet: of 4 ... 7 from 4 and 5 on.
    series, places = stream.windows.at(range(len(stream.windows)))
    assert series.tolist() == [0, 0, 0, 0, 1, 1]
    assert places.tolist() == [10, 11, 12, 13, 4, 5]
    batch = stream.windows_of([0, 5])
    assert batch.past[..., 0].tolist() == [[6, 7, 8, 9], [99, 98, 97, 96]]
    assert batch.future[..., 0].tolist() == [[10, 11, 12], [95, 94, 93]]
    torch.testing.assert_close(batch.scale, torch.tensor([np.arange(16).std(), np.arange(8).std()]).float())
    assert stream.names([0, 5]) == ["warm at row 11", "wet at row 6"]
    batches = [stream.batch(0, index) for index in range(len(stream.plan(0)))]
    assert sorted(row for batch in batches for row in batch.examples) == list(range(6))
    first, second = batches[0].split()
    assert first.examples + second.examples == batches[0].examples
    with pytest.raises(DataError, match="no series has 15 values and 3 more to forecast"):
        find_windows(store, 15, 3)
