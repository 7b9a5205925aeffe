"""A long job that writes to a file: killed at any time and started again, it resumes and loses nothing.

OUT.qkv-*.part   the output so far, under a name that no other file has
OUT.journal      the name of that file, what it is the output of, and after each chunk how much of it is valid
OUT              appears, by renaming the part, when everything is done; the journal is removed
"""

import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, NotRequired

from pydantic import AfterValidator, with_config
from typing_extensions import TypedDict

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import crc32_of, sync
from qkv.core.reading import STRICT, Count, parse_record
from qkv.core.temporary import PART, is_unique_name, unique_name

BEGINNING = b'{"job": '
"""The first bytes of every journal."""
GO_ON = "what was done is kept: give the same command again to resume"


def _unique(name: str) -> str:
    if not is_unique_name(name):
        raise ValueError("is not the name of a part")
    return name


@with_config(STRICT)
class _Begun(TypedDict):
    """The first line of a journal."""

    job: dict[str, Any]
    part: NotRequired[Annotated[str, AfterValidator(_unique)]]


@with_config(STRICT)
class _Done(TypedDict):
    """Every other line: how much is done."""

    lines: Count
    bytes: Count
    crc32: Count


class Job:
    """Made by `open_job`. `lines` of the input are done."""

    def __init__(self, output: Path, journal: IO[bytes], identity: dict[str, Any]) -> None:
        self.output = output
        self.part = unique_name(output, PART)
        self.journal = journal
        self.lines, self.size, self.check = 0, 0, 0
        self.finished = False
        if self._read(identity):
            self._take_up()
        else:
            _forget(journal, output)
            self._append({"job": identity, "part": self.part.name})
        if not self.finished:
            with _told(self.part):
                self.file = self.part.open("r+b" if self.part.exists() else "xb", buffering=0)
                _cut(self.file, self.size)
                sync(output.parent)

    def _read(self, identity: dict[str, Any]) -> bool:
        """Read the journal; False if nothing is done yet. An incomplete last line does not count."""
        whole = self.journal.read().rpartition(b"\n")[0]
        if not whole:
            return False
        _cut(self.journal, len(whole) + 1)
        first, *entries = whole.split(b"\n")
        path = Path(self.journal.name)
        try:
            head = parse_record(first, _Begun, path, "a journal")
            done = [parse_record(line, _Done, path, "a journal") for line in entries]
        except CorruptFolder as error:
            raise QkvError(f"{path}: is damaged; begin again with --restart") from error
        if not done:
            return False
        begun = head["job"]
        # Journals of older versions do not name it.
        self.part = self.output.with_name(head.get("part", self.output.name + PART))
        self.lines, self.size, self.check = done[-1]["lines"], done[-1]["bytes"], done[-1]["crc32"]
        if differs := [key for key in {**begun, **identity} if begun.get(key) != identity.get(key)]:
            raise UsageError(
                f"{self.output}: a job with another {' and another '.join(differs)} is half done there; give the "
                "command that started it to resume, or --restart to start over"
            )
        return True

    def _take_up(self) -> None:
        """Compare what was written with the journal."""
        # Without the part, the job was killed before creating it, or between renaming it and removing the journal.
        self.finished = self.size > 0 and not self.part.exists() and self.output.exists()
        file = self.output if self.finished else self.part
        there = file.stat().st_size if file.exists() else 0
        if self.size and (there < self.size or crc32_of(file, self.size) != self.check):
            raise QkvError(f"{file}: is not what {self.journal.name} says; begin again with --restart")

    def commit(self, text: bytes, lines: int) -> None:
        """Append the output of the next `lines` lines; it is on disk when this returns."""
        with _told(self.part):
            _write(self.file, text)
            os.fsync(self.file.fileno())
        self.lines += lines
        self.size += len(text)
        self.check = zlib.crc32(text, self.check)
        self._append({"lines": self.lines, "bytes": self.size, "crc32": self.check})

    def finish(self) -> None:
        """Rename the part to its final name."""
        with _told(self.output):
            if not self.finished:
                os.fsync(self.file.fileno())
                self.part.replace(self.output)
                sync(self.output.parent)
                self.finished = True
            Path(self.journal.name).unlink()

    def _append(self, entry: dict[str, Any]) -> None:
        with _told(self.journal.name):
            _write(self.journal, json.dumps(entry, sort_keys=True).encode() + b"\n")
            os.fsync(self.journal.fileno())

    def close(self) -> None:
        if hasattr(self, "file"):
            self.file.close()


@contextmanager
def open_job(output: Path, identity: dict[str, Any], restart: bool = False) -> Iterator[Job]:
    """The job that writes `output`: a new one, or the one that was started with the same `identity`.

    `identity` is what the output depends on, as plain data; a job that was started with another identity is rejected.
    """
    output = Path(os.path.realpath(output))
    if output.exists() and not output.is_file():
        raise UsageError(f"{output}: is not a file; choose another name for the output")
    with locked(output.with_name(output.name + ".journal")) as journal:
        _require_journal(journal)
        if restart:
            _forget(journal, output)
        job = Job(output, journal, identity)
        try:
            yield job
        finally:
            job.close()


def _require_journal(journal: IO[bytes]) -> None:
    """Reject a file that only happens to have this name. An empty journal, or a truncated one, is ours."""
    beginning = journal.read(len(BEGINNING))
    journal.seek(0)
    if not BEGINNING.startswith(beginning):
        raise UsageError(
            f"{journal.name}: is in the way, and is not a journal of qkv; choose another name for the output"
        )


def _forget(journal: IO[bytes], output: Path) -> None:
    """Remove what a job has done so far."""
    journal.seek(0)
    # A damaged journal, or one from before parts had unique names, names nothing that is certainly ours.
    with suppress(CorruptFolder, KeyError):
        first = parse_record(journal.readline(), _Begun, Path(journal.name), "a journal")
        output.with_name(first["part"]).unlink(missing_ok=True)
    _cut(journal, 0)


@contextmanager
def locked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file with an exclusive lock, which is released when the process ends for any reason."""
    while True:
        with _told(path):
            file = path.open("a+b", buffering=0)
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"{path}: another process is at work on this job; wait for it") from None
            if not _is_still(path, file):
                continue  # the process that had the lock has finished the job and removed the file
            file.seek(0)
            yield file
            return


def _is_still(path: Path, file: IO[bytes]) -> bool:
    """Whether `path` is the file that was opened: neither removed nor replaced since."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextmanager
def _told(path: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise QkvError(f"{path}: cannot be written ({error.strerror}); {GO_ON}") from error


def _cut(file: IO[bytes], size: int) -> None:
    if os.fstat(file.fileno()).st_size > size:
        file.truncate(size)
    file.seek(size)


def _write(file: IO[bytes], content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
