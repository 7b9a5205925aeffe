"""The lock of a run folder: only one process trains in it. It is released when the process ends for any reason."""

import fcntl
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from qkv.core.errors import UsageError

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

    Where the file system has no locks (some network drives), a warning says so and the work goes on without one.
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
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_UN)


def sign(lock: TextIO) -> None:
    """Write who holds the lock."""
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
