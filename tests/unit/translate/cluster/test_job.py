"""Shards without a cluster: what an actor commits, and what a job that is started again finds done."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from qkv.core.errors import DataError, QkvError, UsageError
from qkv.core.progress import SilentReporter
from qkv.data.lines import MAX_LINE
from qkv.translate.cluster.formats import Columns, RowResult
from qkv.translate.cluster.job import Do, FileJob, JobOptions, ShardWork, attempts, file_job


@dataclass(frozen=True)
class Shouting:
    """Upper case; a text with `!` fails, and with it all that it is given with."""

    verb: str = "Shouting"
    at_once: int = 4
    gpu: bool = False
    columns: Columns = field(default_factory=lambda: {"loud": "string", "vector": "list"})

    def open(self) -> Do:
        def shout(texts: Sequence[str], numbers: Sequence[int]) -> list[RowResult]:
            if any("!" in text for text in texts):
                raise QkvError("is loud enough")
            return [
                RowResult(f"{number} {text.upper()}\n", {"loud": text.upper(), "vector": [0.5]}, ("were shouted",))
                for number, text in zip(numbers, texts, strict=True)
            ]

        return shout


def shout(source: Path, output: Path, **options: Any) -> tuple[FileJob, list[dict[str, Any] | str]]:
    """Every shard by one actor, in this process."""
    job = file_job(str(source), str(output), ".txt", JobOptions(**options), SilentReporter())
    job.folder.claim({}, restart=False)
    commit = ShardWork(Shouting(), job.format, job.folder, job.options).open()
    return job, [commit(shard) for shard in job.inputs.shards]


def test_text_is_numbered_by_its_file_and_failed_rows_keep_their_place(tmp_path: Path) -> None:
    lines = [f"text {number}" for number in range(600)]
    lines[2] = "no!"
    raw = "\n".join(lines).encode().replace(b"text 513\n", b"text \xff\n")
    (tmp_path / "a.txt").write_bytes(raw)
    job, done = shout(tmp_path / "a.txt", tmp_path / "out", rows_per_shard=1)
    parts = [tmp_path / "out" / f"part-{number:06d}.txt" for number in range(2)]
    wanted = [f"{number} {line.upper()}" for number, line in enumerate(lines, start=1)]
    wanted[2] = wanted[513] = ""
    assert "".join(part.read_text() for part in parts).split("\n") == [*wanted, ""]
    problems = [row for about in done if isinstance(about, dict) for row in about["failed"]]
    assert problems[0] == {"row": 3, "problem": "is loud enough"}
    assert problems[1]["row"] == 514
    assert problems[1]["problem"].startswith(f"{tmp_path}/a.txt:514:6: not valid UTF-8")
    job.folder.finish({}, job.folder.committed(job.inputs.shards))
    listed = [json.loads(line) for line in (tmp_path / "out" / "failed.jsonl").read_text().splitlines()]
    assert listed == [{"file": f"{tmp_path}/a.txt", **row} for row in problems]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["rows"], manifest["failed"], len(manifest["parts"])) == (600, 2, 2)


def test_json_lines_get_keys(tmp_path: Path) -> None:
    rows = ['{"id": 1, "text": "a"}', '{"id": 2}', "[1]", "{", '{"id": 3, "text": 4}', '{"text": "\\ud800"}']
    (tmp_path / "a.jsonl").write_text("\n".join(rows) + "\n")
    _, done = shout(tmp_path / "a.jsonl", tmp_path / "out", column="text")
    found = [json.loads(line) for line in (tmp_path / "out" / "part-000000.jsonl").read_text("utf-8").splitlines()]
    none = {"loud": None, "vector": None}
    assert found[0] == {"id": 1, "text": "a", "loud": "A", "vector": [0.5]}
    assert found[1:4] == [{"id": 2, **none}, none, none]
    assert found[4] == {"id": 3, "text": 4, **none}
    assert found[5]["loud"] is None
    assert isinstance(done[0], dict)
    problems = [row["problem"].partition(": ")[2] for row in done[0]["failed"]]
    assert [row["row"] for row in done[0]["failed"]] == [2, 3, 4, 5, 6]
    assert [problem.split(";")[0].split(" (")[0] for problem in problems[:4]] == [
        "has no key 'text'",
        "is not a JSON object",
        "is not JSON",
        "the value of 'text' is not a string",
    ]


def test_tables_get_columns(tmp_path: Path) -> None:
    table = pyarrow.table({"id": [1, 2, 3], "src": ["a", None, "c!"], "loud": ["x", "y", "z"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    _, done = shout(tmp_path / "a.parquet", tmp_path / "out")
    found = parquet.read_table(tmp_path / "out" / "part-000000.parquet").to_pydict()
    vectors = [[0.5], None, None]
    assert found == {"id": [1, 2, 3], "src": ["a", None, "c!"], "loud": ["A", None, None], "vector": vectors}
    assert isinstance(done[0], dict)
    assert [row["row"] for row in done[0]["failed"]] == [2, 3]
    _, done = shout(tmp_path / "a.parquet", tmp_path / "other", column="id")
    assert done == [f"{tmp_path}/a.parquet: column 'id' holds int64, not strings; convert it"]
    _, done = shout(tmp_path / "a.parquet", tmp_path / "third", column="text")
    assert done == [f"{tmp_path}/a.parquet: has no single column 'text'; its columns are 'id', 'src', 'loud'"]


def test_only_whole_shards_are_done(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n" * 2000)
    job, _ = shout(tmp_path / "a.txt", tmp_path / "out", rows_per_shard=512)
    out = tmp_path / "out"
    assert sorted(job.folder.committed(job.inputs.shards)) == [0, 1, 2, 3]
    (out / "done" / "000000.json").write_text("{")
    (out / "part-000001.txt").unlink()
    (out / "part-000002.txt").write_text("half")
    assert sorted(job.folder.committed(job.inputs.shards)) == [3]


def test_a_folder_of_another_job_or_of_nobody_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    job = file_job(str(tmp_path / "a.txt"), str(tmp_path / "out"), ".txt", JobOptions(), SilentReporter())
    job.folder.claim({"model": [1], "search": "beam"}, restart=False)
    job.folder.claim({"model": [1], "search": "beam"}, restart=False)
    (tmp_path / "out" / "part-000000.txt").write_text("")
    with pytest.raises(UsageError, match=r"out: holds a job with another model and another search; give the command"):
        job.folder.claim({"model": [2], "search": "greedy"}, restart=False)
    assert (tmp_path / "out" / "part-000000.txt").exists()
    job.folder.claim({"model": [2], "search": "greedy"}, restart=True)
    assert not (tmp_path / "out" / "part-000000.txt").exists()
    others = tmp_path / "others"
    others.mkdir()
    (others / "letter").write_text("dear")
    theirs = file_job(str(tmp_path / "a.txt"), str(others), ".txt", JobOptions(), SilentReporter())
    for restart in (False, True):
        with pytest.raises(UsageError, match=r"others: is not empty and holds no batch job \(it has letter\)"):
            theirs.folder.claim({}, restart)
    assert (others / "letter").read_text() == "dear"


def test_the_output_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    job = file_job(str(tmp_path / "a.txt"), str(tmp_path / "a.txt"), ".txt", JobOptions(), SilentReporter())
    with pytest.raises(UsageError, match="is not a folder"):
        job.folder.claim({}, restart=False)


def test_first_texts_are_read_from_the_first_shard(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\n")
    job = file_job(str(tmp_path / "a.txt"), str(tmp_path / "out"), ".txt", JobOptions(), SilentReporter())
    assert job.first_texts(2) == ["a", "b"]
    with pytest.raises(DataError):
        file_job(str(tmp_path / "none"), str(tmp_path / "out"), ".txt", JobOptions(), SilentReporter())


def test_what_no_text_is_the_reason_of_fails_the_shard_and_not_its_rows() -> None:
    def do(texts: Sequence[str], numbers: Sequence[int]) -> list[RowResult]:
        raise MemoryError("no memory for a moment")

    with pytest.raises(MemoryError):
        list(attempts(do, ["a", "b"], [1, 2]))


def test_a_line_that_is_too_long_is_a_failed_row(tmp_path: Path) -> None:
    """It used to fail its whole shard, at each start again."""
    long = b"a" * (MAX_LINE + 1)
    (tmp_path / "a.txt").write_bytes(b"one\n" + long + b"\nthree\n")
    _, done = shout(tmp_path / "a.txt", tmp_path / "out")
    assert (tmp_path / "out" / "part-000000.txt").read_text() == "1 ONE\n\n3 THREE\n"
    assert isinstance(done[0], dict)
    assert [(row["row"], row["problem"].partition(";")[0]) for row in done[0]["failed"]] == [
        (2, f"{tmp_path}/a.txt:2: the line is longer than 16 MiB")
    ]
    (tmp_path / "a.jsonl").write_bytes(b'{"src": "one"}\n{"src": "' + long + b'"}\n')
    _, done = shout(tmp_path / "a.jsonl", tmp_path / "json")
    assert isinstance(done[0], dict)
    assert [row["row"] for row in done[0]["failed"]] == [2]
    assert len((tmp_path / "json" / "part-000000.jsonl").read_text().splitlines()) == 2
