"""A job that dies at any moment and is started again gives the same bytes as one that never died."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import QkvError, UsageError
from qkv.translate.jobs import job as job_module
from qkv.translate.jobs.job import Job, open_job
from tests.support.faults import Death

PIECES = [b"one\ntwo\n", b"three\n", b"\xc3\xa4\n\n\n", b"last\n"]
WHOLE = b"".join(PIECES)
IDENTITY = {"input": "abc", "model": ["def"]}


def rest_of(job: Job) -> Iterator[tuple[bytes, int]]:
    """The pieces that are not done yet."""
    before = 0
    for piece in PIECES:
        lines = piece.count(b"\n")
        if before >= job.lines:
            yield piece, lines
        before += lines


def work(output: Path, identity: dict[str, Any] = IDENTITY, restart: bool = False) -> None:
    with open_job(output, identity, restart) as job:
        for piece, lines in () if job.finished else rest_of(job):
            job.commit(piece, lines)
        job.finish()


def part_of(output: Path, pieces: int) -> None:
    """Do only the first `pieces`."""
    with open_job(output, IDENTITY) as job:
        for piece, lines in list(rest_of(job))[:pieces]:
            job.commit(piece, lines)


def left(folder: Path) -> list[str]:
    """The names in a folder, unique ones without what makes them so."""
    return sorted(re.sub(r"\.qkv-[0-9a-f]{16}", "", path.name) for path in folder.iterdir())


def part(output: Path) -> Path:
    """Where the job on `output` has put what it has done."""
    (found,) = output.parent.glob(f"{output.name}.qkv-*.part")
    return found


def in_fork(moment: int, output: Path) -> bool:
    """Work in a process that dies before its `moment`-th change of the disk; whether it lived to the end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            Death(moment).watch()
            work(output)
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(status) in (0, -9)
    return status == 0


def test_output_appears_when_it_is_whole(tmp_path: Path) -> None:
    part_of(tmp_path / "out", 2)
    assert left(tmp_path) == ["out.journal", "out.part"]
    work(tmp_path / "out")
    assert left(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_death_at_every_moment(tmp_path: Path) -> None:
    """Killed before each change of the disk, then finished; the last process of each series meets no death."""
    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        folder.mkdir()
        lived = in_fork(moment, folder / "out")
        if not lived:
            work(folder / "out")
        assert left(folder) == ["out"]
        assert (folder / "out").read_bytes() == WHOLE
        if lived:
            break
    assert moment > 15


def test_death_again_and_again(tmp_path: Path) -> None:
    """Each life is a little longer than nothing."""
    lives = 1
    while not in_fork(8, tmp_path / "out"):
        lives += 1
        assert lives < 50
    assert lives > 2
    assert (tmp_path / "out").read_bytes() == WHOLE


@pytest.mark.parametrize("torn", [b'{"lines": 9, "by', b"\x00\x00\x00", b'{"bytes": 99, "crc32": 0, "lines": 99}'])
def test_a_torn_end_of_the_journal_does_not_count(torn: bytes, tmp_path: Path) -> None:
    part_of(tmp_path / "out", 2)
    with (tmp_path / "out.journal").open("ab") as file:
        file.write(torn)
    with part(tmp_path / "out").open("ab") as file:
        file.write(b"half a li")
    work(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_what_was_not_committed_is_written_again(tmp_path: Path) -> None:
    with open_job(tmp_path / "out", IDENTITY) as job:
        job.commit(PIECES[0], 2)
        job.file.write(b"lost")
    with open_job(tmp_path / "out", IDENTITY) as job:
        assert job.lines == 2
        assert part(tmp_path / "out").read_bytes() == PIECES[0]


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({**IDENTITY, "input": "xyz"}, "a job with another input is half done there"),
        ({**IDENTITY, "model": ["def", "ghi"]}, "another model"),
        ({"input": "abc"}, "another model"),
        ({**IDENTITY, "input": 1, "search": {}}, "another input and another search"),
    ],
)
def test_another_job_is_refused_until_it_is_told_to_restart(
    identity: dict[str, Any], words: str, tmp_path: Path
) -> None:
    part_of(tmp_path / "out", 2)
    with pytest.raises(UsageError, match=words) as told:
        work(tmp_path / "out", identity)
    assert "--restart" in str(told.value)
    work(tmp_path / "out", identity, restart=True)
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_a_job_that_has_done_nothing_is_in_nobodys_way(tmp_path: Path) -> None:
    part_of(tmp_path / "out", 0)
    assert left(tmp_path) == ["out.journal", "out.part"]
    other = {**IDENTITY, "input": "xyz"}
    with open_job(tmp_path / "out", other) as job:
        job.commit(PIECES[0], 2)
    with pytest.raises(UsageError, match="another input"):
        work(tmp_path / "out")
    work(tmp_path / "out", other)
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_the_names_of_a_new_job_survive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is synced when both files are in it, before anything is committed."""
    seen: list[list[str]] = []
    monkeypatch.setattr(job_module, "sync", lambda folder: seen.append(left(folder)))
    with open_job(tmp_path / "out", IDENTITY):
        assert seen == [["out.journal", "out.part"]]


@pytest.mark.parametrize("damage", ["shorter", "changed", "gone", "journal"])
def test_damage_is_noticed(damage: str, tmp_path: Path) -> None:
    part_of(tmp_path / "out", 2)
    done, journal = part(tmp_path / "out"), tmp_path / "out.journal"
    if damage == "shorter":
        os.truncate(done, 3)
    elif damage == "changed":
        done.write_bytes(done.read_bytes().replace(b"two", b"TWO"))
    elif damage == "gone":
        done.unlink()
    else:
        journal.write_bytes(journal.read_bytes().replace(b"lines", b"linez"))
    with pytest.raises(QkvError, match="--restart"):
        work(tmp_path / "out")
    work(tmp_path / "out", restart=True)
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_an_older_output_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    part_of(tmp_path / "out", 3)
    assert (tmp_path / "out").read_bytes() == b"old"
    work(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_an_old_output_as_long_as_the_new_one_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"x" * len(PIECES[0]))
    part_of(tmp_path / "out", 1)
    part(tmp_path / "out").unlink()
    with pytest.raises(QkvError, match="--restart"):
        work(tmp_path / "out")


def test_nothing_to_do(tmp_path: Path) -> None:
    with open_job(tmp_path / "out", IDENTITY) as job:
        job.finish()
    assert (tmp_path / "out").read_bytes() == b""
    assert left(tmp_path) == ["out"]


def test_two_at_once(tmp_path: Path) -> None:
    with (
        open_job(tmp_path / "out", IDENTITY),
        pytest.raises(UsageError, match="another process is at work"),
        open_job(tmp_path / "out", IDENTITY),
    ):
        pass


def test_where_no_job_can_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        work(Path("/dev/null"))
    with pytest.raises(UsageError, match="is not a file"):
        work(tmp_path)
    with pytest.raises(QkvError, match="cannot be written"):
        work(tmp_path / "no" / "out")


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "out")
    work(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "out").read_bytes() == WHOLE


def test_the_journal_is_readable(tmp_path: Path) -> None:
    part_of(tmp_path / "out", 2)
    first, *entries = [json.loads(line) for line in (tmp_path / "out.journal").read_text().splitlines()]
    assert first == {"job": IDENTITY, "part": part(tmp_path / "out").name}
    assert [(entry["lines"], entry["bytes"]) for entry in entries] == [(2, 8), (3, 14)]


def test_files_of_others_with_such_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out.part").write_bytes(b"mine\n")
    part_of(tmp_path / "out", 2)
    work(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == WHOLE
    assert (tmp_path / "out.part").read_bytes() == b"mine\n"
    assert left(tmp_path) == ["out", "out.part"]


@pytest.mark.parametrize("mine", [b"dear diary", b"dear diary\n", b"[]\n{}\n", b"\x00" * 9])
@pytest.mark.parametrize("restart", [False, True])
def test_a_journal_of_somebody_else_is_refused(mine: bytes, restart: bool, tmp_path: Path) -> None:
    (tmp_path / "out.journal").write_bytes(mine)
    with pytest.raises(UsageError, match="is not a journal of qkv; choose another name"):
        work(tmp_path / "out", restart=restart)
    assert (tmp_path / "out.journal").read_bytes() == mine
    assert left(tmp_path) == ["out.journal"]


def test_a_job_of_an_older_version_goes_on(tmp_path: Path) -> None:
    """Its part had the plain name, which the journal did not say."""
    part_of(tmp_path / "out", 2)
    part(tmp_path / "out").rename(tmp_path / "out.part")
    journal = tmp_path / "out.journal"
    _, *entries = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([json.dumps({"job": IDENTITY}) + "\n", *entries]))
    work(tmp_path / "out")
    assert left(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_a_journal_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine").write_bytes(PIECES[0] + PIECES[1])
    part_of(tmp_path / "folder" / "out", 2)
    journal = tmp_path / "folder" / "out.journal"
    _, *entries = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([json.dumps({"job": IDENTITY, "part": "../mine"}) + "\n", *entries]))
    with pytest.raises(QkvError, match="is damaged"):
        work(tmp_path / "folder" / "out")
    work(tmp_path / "folder" / "out", restart=True)
    assert (tmp_path / "mine").read_bytes() == PIECES[0] + PIECES[1]
