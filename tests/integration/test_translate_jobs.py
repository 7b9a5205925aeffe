"""`qkv translate --output`: killed at any time it goes on, and no process is left behind."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.support.commands import GREEDY, quiet, refused, written, written_lines
from tests.support.forks import Child, Forks
from tests.support.speaker import save_speaker, sentences


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    return save_speaker(in_memory / "worker")


@pytest.fixture(scope="module")
def lines(in_memory: Path) -> Path:
    return written_lines(in_memory / "job.txt")


@pytest.fixture(scope="module")
def straight(model: Path, lines: Path, forks: Forks) -> str:
    """What the sixty lines give in one go."""
    return quiet(forks.qkv("translate", model, *GREEDY, stdin=lines))


def job(model: Path, lines: Path, output: Path, *more: object) -> list[str]:
    return [str(word) for word in ("translate", model, *GREEDY, "--input", lines, "--output", output, *more)]


def test_a_job_is_killed_again_and_again(model: Path, lines: Path, straight: str, scratch: Path, forks: Forks) -> None:
    """kill -9 at random moments; each start goes on, and the output is that of one go, byte for byte."""
    output, source = scratch / "out", random.Random()
    began, kills = time.monotonic(), 0
    slowly, arguments = "tests.support.translating:slowly", job(model, lines, output)
    while True:
        child = forks.start(slowly, 4, 0.1, *arguments)
        # The first one is too short for the whole job; on a busy machine later ones are long enough.
        end = time.monotonic() + source.uniform(0.1, 1.2 + 0.2 * kills)
        while time.monotonic() < end and (code := child.poll()) is None:
            time.sleep(0.01)
        if code == 0:
            break
        assert not output.exists() or kills
        os.kill(child.pid, signal.SIGKILL)
        kills += 1
        child.wait()
        assert time.monotonic() - began < 120
    assert kills
    assert output.read_text() == straight
    assert [path.name for path in scratch.iterdir()] == ["out"]


def test_a_job_that_died_goes_on_where_it_was(
    model: Path, lines: Path, straight: str, scratch: Path, forks: Forks
) -> None:
    output = scratch / "out"
    child = forks.start("tests.support.translating:slowly", 4, 0.1, *job(model, lines, output))
    journal = scratch / "out.journal"
    child.until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 3)
    # Two at once would spoil it.
    assert "another process is at work" in refused(forks.qkv(*job(model, lines, output)), 2)
    child.send(signal.SIGKILL)
    child.wait()
    assert not output.exists()
    # Another input, model or setting would make another output.
    other = written(scratch / "other", b"aa\n" * 60)
    assert "another input" in refused(forks.qkv(*job(model, other, output)), 2)
    changed = refused(forks.qkv(*job(model, lines, output, "search.max_extra=3")), 2)
    assert "another search" in changed
    assert "--restart" in changed
    assert "another form of output" in refused(forks.qkv(*job(model, lines, output, "--scores")), 2)
    ended = forks.start("tests.support.translating:in_small_chunks", 4, *job(model, lines, output)).wait()
    assert quiet(ended) == ""
    assert f"{output}: resuming after line " in ended.stderr
    assert output.read_text() == straight
    # Done again from the start, it gives the same.
    assert quiet(forks.qkv(*job(model, lines, output, "--restart"))) == ""
    assert output.read_text() == straight


def test_a_job_on_a_full_disk(model: Path, scratch: Path, forks: Forks) -> None:
    """What fits is kept, and with more room the job goes on."""
    given = written(scratch / "in", "".join(line + "\n" for line in sentences(300)).encode())
    arguments = job(model, given, scratch / "out")
    straight = quiet(forks.qkv("translate", model, *GREEDY, stdin=given))
    ended = forks.call("tests.support.translating:with_small_files", 4000, 100, *arguments)
    assert ended.code == 1
    assert ended.complaint.startswith(f"{scratch / 'out'}.qkv-")
    assert ".part: cannot be written (File too large); what was done is kept" in ended.complaint
    again = forks.start("tests.support.translating:in_small_chunks", 100, *arguments).wait()
    assert quiet(again) == ""
    assert "resuming after line 100" in again.stderr
    assert (scratch / "out").read_text() == straight


def test_where_a_job_cannot_write(model: Path, lines: Path, scratch: Path, forks: Forks) -> None:
    own = written(scratch / "own", lines.read_bytes())
    assert "is also an input" in refused(forks.qkv(*job(model, own, own)), 2)
    assert "cannot be written" in refused(forks.qkv(*job(model, lines, scratch / "no" / "out")), 1)
    assert "is not a file" in refused(forks.qkv(*job(model, lines, scratch)), 2)
    assert own.read_bytes() == lines.read_bytes()


def children(pid: int) -> list[int]:
    """The processes that `pid` has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGTERM, -15)])
def test_no_worker_outlives_its_parent(number: int, code: int, model: Path, lines: Path, forks: Forks) -> None:
    child: Child = forks.start("tests.support.translating:with_workers", "translate", str(model), stdin=lines)
    child.until(lambda: len(children(child.pid)) == 2)
    workers = children(child.pid)
    child.send(number)
    ended = child.wait()
    assert ended.code == code
    assert "Traceback" not in ended.stderr
    end = time.monotonic() + 10
    while not gone(workers):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_interrupt_does_not_wait_for_an_answer(model: Path, lines: Path, forks: Forks) -> None:
    """Python only notes a signal that another thread receives: nothing wakes the one that has to act on it."""
    child: Child = forks.start(
        "tests.support.translating:interrupted_in_a_thread", "translate", str(model), stdin=lines
    )
    ended = child.wait()
    assert ended.code == 130
    assert "Traceback" not in ended.stderr
