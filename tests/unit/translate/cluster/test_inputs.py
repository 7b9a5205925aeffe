"""Every row of every file is in one shard, and a shard begins where it says."""

import gzip
from itertools import pairwise
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from qkv.core.errors import DataError, UsageError
from qkv.translate.cluster.formats import Lines, Parquet
from qkv.translate.cluster.inputs import Inputs, survey_inputs
from qkv.translate.cluster.storage import matching


def surveyed(pattern: Path | str, per_shard: int) -> Inputs:
    return survey_inputs(matching(str(pattern)), per_shard, lambda done, total: None)


def read(inputs: Inputs) -> list[str | None]:
    return [text for shard in inputs.shards for text in Lines(".txt").read(shard, "", "error").texts]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 7])
def test_lines_are_divided_without_a_loss(count: int, last: bool, end: str, tmp_path: Path) -> None:
    texts = [f"line {number} ü" for number in range(count)]
    (tmp_path / "a.txt").write_bytes((end.join(texts) + end * last).encode())
    inputs = surveyed(tmp_path / "a.txt", 3)
    assert read(inputs) == texts
    assert [shard.rows for shard in inputs.shards] == [min(3, count - first) for first in range(0, count, 3)]
    assert [shard.first for shard in inputs.shards] == list(range(0, count, 3))


def test_a_shard_begins_in_any_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.data.lines.BLOCK", 7)
    texts = [f"{number}" * (number % 5) for number in range(100)]
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n")
    assert read(surveyed(tmp_path / "a.txt", 4)) == texts


def test_files_follow_by_name_and_a_compressed_one_is_one_shard(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("4\n5\n")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"1\n2\n3\n"))
    inputs = surveyed(tmp_path / "*", 1)
    assert read(inputs) == ["1", "2", "3", "4", "5"]
    assert [shard.rows for shard in inputs.shards] == [3, 1, 1]
    assert [shard.number for shard in inputs.shards] == [0, 1, 2]


def test_the_content_counts_and_not_the_name(tmp_path: Path) -> None:
    for name, content in (("a.txt", "1\n2\n"), ("b.txt", "1\n2\n"), ("c.txt", "1\n3\n")):
        (tmp_path / name).write_text(content)
    a, b, c = (surveyed(tmp_path / name, 1).sha256 for name in ("a.txt", "b.txt", "c.txt"))
    assert a == b != c


def test_shards_of_a_table_cross_row_groups(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(25)]
    parquet.write_table(pyarrow.table({"src": texts}), tmp_path / "a.parquet", row_group_size=7)
    inputs = surveyed(tmp_path / "a.parquet", 4)
    found = [text for shard in inputs.shards for text in Parquet().read(shard, "src", "error").texts]
    assert found == texts
    assert {shard.rows for shard in inputs.shards} == {4, 1}
    assert all(one.first + one.rows == other.first for one, other in pairwise(inputs.shards))


def test_a_large_row_group_is_not_read_too_often(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"src": ["x"] * 1000}), tmp_path / "a.parquet")
    assert len(surveyed(tmp_path / "a.parquet", 1).shards) <= 32


def test_what_is_wrong_with_files_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match=r"a.txt: is empty; give a file with at least one row"):
        surveyed(tmp_path / "a.txt", 1)
    (tmp_path / "b.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"b.jsonl is jsonl, but .*a.txt is text; give files of one form"):
        surveyed(tmp_path / "*", 1)
    (tmp_path / "c.parquet").write_text("no table")
    with pytest.raises(DataError, match=r"c.parquet: is not a whole Parquet file"):
        surveyed(tmp_path / "c.parquet", 1)
    with pytest.raises(DataError, match=r"nothing.txt: no such file"):
        surveyed(tmp_path / "nothing.txt", 1)
    with pytest.raises(DataError, match=r"no file has such a name"):
        surveyed(tmp_path / "*.csv", 1)
    with pytest.raises(UsageError, match=r"^foo://x/y: names no file system"):
        surveyed("foo://x/y", 1)


def test_patterns_and_uris_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.txt", "b.txt", "_done", ".hidden", "in/c.txt"):
        (tmp_path / name).write_text("x\n")
    monkeypatch.chdir(tmp_path)

    def names(pattern: str) -> list[str]:
        return [str(Path(place.path).relative_to(tmp_path)) for place in matching(pattern)]

    assert names("*") == names(".") == names("*.txt") == names(f"file://{tmp_path}/*") == ["a.txt", "b.txt"]
    assert names("b.txt") == names(f"file://{tmp_path}/b.txt") == ["b.txt"]
    assert names("*/c.txt") == names("i*/*") == names("in") == ["in/c.txt"]
    assert names("[a]*") == names("?.txt")[:1] == ["a.txt"]
