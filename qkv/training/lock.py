"""The lock of a run folder: only one process trains in it. The lock goes with the process, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from qkv.errors import UsageError

LOCK = "run.lock"


def require_free(run: Path) -> None:
    """Refuse a folder in which another process trains. This needs none of the libraries that training imports."""
    try:
        lock = (run / LOCK).open("r")
    except OSError:
        # Whether there is a run at all, and may be written to, is found out when it is locked.
        return
    with lock, held(lock, run):
        pass


@contextmanager
def held(lock: TextIO, run: Path) -> Iterator[None]:
    """Hold the lock that was opened; raises UsageError if another process does."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        raise UsageError(
            f"{run}: is being trained by process {holder}; wait for it or choose another run folder"
        ) from None
    try:
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def sign(lock: TextIO) -> None:
    """Write who holds the lock."""
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
