"""The folder of a run: its paths, its lock, its log of numbers."""

import fcntl
import json
import os
import shutil
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import crc32_of, set_aside, verify_folder
from qkv.core.outputs import claim_folder, mark_folder, read_marker
from qkv.core.reading import open_file, parse_record
from qkv.core.temporary import OLD, TEMPORARY, remove_leftovers

LOCK = "run.lock"


def require_free(run: Path) -> None:
    """Reject a folder in which another process trains. Imports none of the libraries that training needs."""
    with kept_free(run):
        pass


@contextmanager
def kept_free(run: Path) -> Iterator[None]:
    """Context in which no other process can train in the folder; raises UsageError if one already does."""
    with ExitStack() as stack:
        # Without a lock file there is no run. Whether it is writable shows when it is written.
        with suppress(OSError):
            lock = stack.enter_context((run / LOCK).open("r+"))
            stack.enter_context(held(lock, run))
        yield


@contextmanager
def held(lock: TextIO, run: Path) -> Iterator[None]:
    """Hold the lock that was opened; raises UsageError if another process does.

    Where the file system has no locks (some network drives), a warning says so and work continues without one.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        raise UsageError(
            f"{run}: is being trained by process {holder}; wait for it or choose another run folder"
        ) from None
    except OSError as error:
        warnings.warn(
            f"{run}: cannot be locked ({error.strerror}); make sure that no other process trains in it", stacklevel=1
        )
    try:
        yield
    finally:
        # Closing the file releases the lock anyway; do not hide the error of the block.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_UN)


def sign(lock: TextIO) -> None:
    """Write who holds the lock."""
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()


class RunFolder:
    """The paths of a run.

    config.yaml     the resolved recipe; runs again
    tokenizer/      the tokenizers
    data/           the prepared pairs
    checkpoints/    step-N/ each: weights, optimiser, position
    best/           the best model so far, a saved-model folder
    metrics.jsonl   a line for each update and validation
    events/         the same for TensorBoard
    samples/        outputs at each validation
    attention/      cross-attention of a few dev pairs at each validation
    qkv.json        the marker: this folder was made for a run, so qkv may write here
    """

    WHAT = "run"
    NAMES = (
        "config.yaml",
        "tokenizer",
        "data",
        "checkpoints",
        "best",
        "metrics.jsonl",
        "events",
        "samples",
        "attention",
        LOCK,
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.tokenizer = path / "tokenizer"
        self.train_data = path / "data" / "train"
        self.dev_data = path / "data" / "dev"
        self.checkpoints = path / "checkpoints"
        self.best = path / "best"
        self.metrics = path / "metrics.jsonl"
        self.events = path / "events"
        self.samples = path / "samples"
        self.attention = path / "attention"

    def create(self) -> None:
        """Create the folder, or use an empty one; raises UsageError if it holds anything but a run."""
        claim_folder(self.path, self.WHAT, self.NAMES, "choose a new or empty folder with run=...")
        try:
            for folder in (self.path / "data", self.checkpoints, self.samples):
                folder.mkdir(exist_ok=True)
        except OSError as error:
            raise QkvError(
                f"{self.path}: cannot be created ({error.strerror}); choose another folder with run=..."
            ) from error

    def adopt(self) -> None:
        """Mark the folder of a run that an earlier version left without a marker."""
        if not read_marker(self.path) and self.config.is_file() and (self.path / LOCK).is_file():
            mark_folder(self.path, self.WHAT, self.NAMES)

    def clean(self) -> None:
        """Remove incomplete files left by a killed process."""
        remove_leftovers(self.path, "config.yaml", "qkv.json", "tokenizer", "best")
        remove_leftovers(self.path / "data", "train", "dev")
        remove_leftovers(self.checkpoints, "step-*")
        remove_leftovers(self.samples, "update-*")
        remove_leftovers(self.attention, "update-*")

    def clear(self) -> None:
        """Remove the traces of an earlier start without a checkpoint; prepared data is checked when it is used."""
        if self.tokenizer.exists():
            shutil.rmtree(self.tokenizer)
        traces = {self.events: "events.out.tfevents.*", self.samples: "update-*.txt", self.attention: "update-*.json"}
        for folder, names in traces.items():
            for path in folder.glob(names):
                path.unlink()

    def verify_prepared(self) -> None:
        """Compare tokenizers and data with their manifests; damaged ones are set aside and CorruptFolder is raised."""
        damaged = []
        for folder in (self.tokenizer, self.train_data, self.dev_data):
            try:
                if folder.exists():
                    verify_folder(folder)
            except CorruptFolder as error:
                damaged.append(error)
                set_aside(folder)
        if damaged:
            raise damaged[0]

    def set_best_aside(self) -> None:
        """Rename a damaged best/ to damaged-best/, so that a new one can take its place."""
        if self.best.exists():
            set_aside(self.best)

    def is_used(self) -> bool:
        """Whether a new run would destroy something here; a checkpoint that was never completed is nothing.

        One that was just being replaced is complete: `clean` renames it back.
        """
        names = [path.name for path in self.checkpoints.glob("step-*")]
        return self.best.exists() or any(not name.endswith(TEMPORARY) or name.endswith(OLD) for name in names)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process trains in a run folder."""
        try:
            lock = _not_a_link(self.path / LOCK).open("a+")
        except OSError as error:
            raise QkvError(f"{self.path}: cannot be written to ({error.strerror})") from error
        with lock, held(lock, self.path):
            sign(lock)
            yield


class MetricsLog:
    """metrics.jsonl: one JSON object a line, appended; truncated on resume so that each update appears once."""

    def __init__(self, path: Path, keep_bytes: int, crc32: int | None = None) -> None:
        self.path = path
        try:
            # Unbuffered: what could not be written is not tried again when the file is closed.
            self.file = _not_a_link(path).open("ab", buffering=0)
            size = path.stat().st_size
            kept = keep_bytes if size >= keep_bytes else path.read_bytes().rfind(b"\n") + 1
            if size > kept:
                self.file.truncate(kept)
            self.crc32 = crc32_of(path, kept)
        except OSError as error:
            raise QkvError(f"{path}: cannot be written to ({error.strerror})") from error
        self.damage: str | None = None
        """What is wrong with what was there, whose first `keep_bytes` should have the checksum `crc32`."""
        if size < keep_bytes:
            self.damage = "is missing, or parts of it"
        elif crc32 is not None and self.crc32 != crc32:
            self.damage = "has changed since the checkpoint was written"

    def write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
            self.crc32 = zlib.crc32(text, self.crc32)
        except OSError as error:
            raise QkvError(
                f"{self.path}: cannot be written to ({error.strerror}); the last checkpoint is good: --resume it"
            ) from error

    def size(self) -> int:
        """Bytes so far, synced to disk."""
        os.fsync(self.file.fileno())
        return self.path.stat().st_size

    def close(self) -> None:
        self.file.close()


def _not_a_link(path: Path) -> Path:
    """These files are truncated and written in place, which through a link would change a file outside the run."""
    if path.is_symlink():
        raise UsageError(f"{path}: is a symbolic link, but a run changes only files of its own; remove the link")
    return path


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl; a last line cut off by a crash is left out. Raises CorruptFolder."""
    try:
        with open_file(path) as file:
            lines = file.read().split(b"\n")
    except OSError as error:
        raise CorruptFolder(f"{path}: cannot be read ({error.strerror})") from error
    what = "a log of numbers, a JSON object a line"
    return [parse_record(line, dict[str, Any], path, what) for line in lines[:-1]]
