"""Unique temporary names next to a target; those left by dead processes are removed.

    NAME.qkv-0123456789abcdef.tmp       what is being written
    NAME.qkv-0123456789abcdef.old.tmp   what it replaces, between two renames
    NAME.qkv-0123456789abcdef.part      the output of a job that can be resumed; its journal names it

The process that writes a .tmp holds a lock on it, which is released when the process ends for whatever reason. So a
.tmp without a lock is a leftover, and only leftovers are removed.
"""

import fcntl
import glob
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

TEMPORARY, OLD, PART = ".tmp", ".old.tmp", ".part"
_NAMES = re.compile(r"(?P<target>[^/]+)\.qkv-(?P<token>[0-9a-f]{16})(?P<ending>\.old\.tmp|\.tmp|\.part)")


def unique_name(target: Path, ending: str = TEMPORARY) -> Path:
    """A name beside `target` that no other file has."""
    return target.with_name(f"{target.name}.qkv-{secrets.token_hex(8)}{ending}")


def is_unique_name(name: str) -> bool:
    """Whether `unique_name` made it."""
    return _NAMES.fullmatch(name) is not None


def old_name(temporary: Path) -> Path:
    """Where the predecessor of `temporary` is kept while the two are swapped."""
    return temporary.with_name(temporary.name.removesuffix(TEMPORARY) + OLD)


@contextmanager
def temporary_file(target: Path) -> Iterator[IO[bytes]]:
    """A new file beside `target` to fill and to rename; removed if it was not renamed."""
    remove_leftovers(target.parent, glob.escape(target.name))
    while True:
        path = unique_name(target)
        with open(path, "xb") as file:
            if not _take(path, file.fileno()):
                continue
            try:
                yield file
            finally:
                # Report the original error, not that its leftovers could not be removed.
                with suppress(OSError):
                    path.unlink()
            return


@contextmanager
def temporary_folder(target: Path, permissions: int = 0o777) -> Iterator[Path]:
    """A new folder beside `target` to fill and to rename; removed if it was not renamed."""
    remove_leftovers(target.parent, glob.escape(target.name))
    while True:
        path = unique_name(target)
        path.mkdir(permissions)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if not _take(path, descriptor):
                continue
            try:
                yield path
            finally:
                shutil.rmtree(path, ignore_errors=True)
            return
        finally:
            os.close(descriptor)


def _take(path: Path, descriptor: int) -> bool:
    """Lock a new temporary; False if another process took it for a leftover before it was locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: nobody can lock it there, so nobody takes it for a leftover.
        return True
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def remove_leftovers(parent: Path, *patterns: str) -> None:
    """Remove what processes that died left in `parent` of targets whose names match; a folder caught between the two
    renames is put back.
    """
    if not parent.is_dir():
        return
    found = [(entry.name, match) for entry in os.scandir(parent) if (match := _NAMES.fullmatch(entry.name))]
    ours = [
        (parent / name, match)
        for name, match in sorted(found, key=lambda one: one[0])
        if any(fnmatchcase(match["target"], pattern) for pattern in patterns)
    ]
    # Those with .old first: while the counterpart is locked, the two are being swapped.
    for path, match in ours:
        if match["ending"] == OLD and not _is_held(path.with_name(path.name.removesuffix(OLD) + TEMPORARY)):
            final = path.with_name(match["target"])
            # Another process may clean up at the same time.
            with suppress(OSError):
                shutil.rmtree(path) if os.path.lexists(final) else path.rename(final)
    for path, match in ours:
        if match["ending"] == TEMPORARY:
            _if_free(path, _remove)


def _is_held(path: Path) -> bool:
    return path.exists() and not _if_free(path, lambda _: None)


def _if_free(path: Path, then: Callable[[Path], None]) -> bool:
    """Do it unless another process holds `path`; False if one does, or if that cannot be determined."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        then(path)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
