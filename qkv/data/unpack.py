"""The content of a file, a bounded piece at a time: plain, gzip or zstandard, told apart by the first bytes.

A compressed file that expands beyond reason is refused before any of its content is given away, so that a bomb costs
no more than the decompression of its first megabytes, whatever it holds.
"""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from qkv.errors import DataError
from qkv.reading import open_file

BLOCK = 1 << 20
PACKED_BLOCK = 1 << 10
"""Compressed bytes that are looked at together: of gzip they give 1 MiB at most, of zstandard 32 MiB."""
MAX_RATIO = 200
RATIO_CHECKED_FROM = 8 << 20
"""The expansion of compressed files is judged after this many bytes, so that small repetitive files pass."""

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
NOT_READ = {b"\xfd7zXZ\x00": "an xz", b"PK\x03\x04": "a zip"}


class _Frame(Protocol):
    """One of the compressed streams that stand one after another in a file."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def blocks(path: Path) -> Iterator[bytes]:
    """The decompressed content of `path`; raises DataError."""
    try:
        with open_file(path) as file:
            start = file.read(8)
            file.seek(0)
            for magic, name in NOT_READ.items():
                if start.startswith(magic):
                    raise DataError(f"{path}: is {name} file; decompress it, or use gzip or zstandard")
            if start.startswith((GZIP, ZSTD)):
                unpacked = _gzip(file) if start.startswith(GZIP) else _zstandard(file)
                yield from _judged(unpacked, file, path)
            else:
                yield from iter(lambda: file.read(BLOCK), b"")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: the compressed data is damaged or ends too early; fetch the file again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _judged(content: Iterator[bytes], file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The same blocks; the first ones are held back until there are enough of them to judge the expansion."""
    held: list[bytes] = []
    produced = 0
    for block in content:
        produced += len(block)
        held.append(block)
        if produced > RATIO_CHECKED_FROM:
            if produced > MAX_RATIO * file.tell():
                raise DataError(
                    f"{path}: expands more than {MAX_RATIO} times, like a compression bomb; decompress it first"
                )
            yield from held
            held.clear()
    yield from held


def _frames(file: BinaryIO, new_frame: Callable[[], _Frame]) -> Iterator[bytes]:
    """What all frames of a file hold together; raises EOFError where the last one is not whole."""
    frame = None
    ready: list[bytes] = []
    size = 0
    while chunk := file.read(PACKED_BLOCK):
        # Some programs fill a gzip file up with zeros behind its end.
        while chunk := chunk if frame else chunk.lstrip(b"\0"):
            frame = frame or new_frame()
            ready.append(frame.decompress(chunk))
            size += len(ready[-1])
            chunk = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
        if size >= BLOCK:
            yield b"".join(ready)
            ready, size = [], 0
    yield b"".join(ready)
    if frame is not None:
        raise EOFError


def _gzip(file: BinaryIO) -> Iterator[bytes]:
    return _frames(file, lambda: zlib.decompressobj(wbits=31))


def _zstandard(file: BinaryIO) -> Iterator[bytes]:
    """Frame by frame, because the library's stream reader takes a cut file for a whole one."""
    import zstandard

    library = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        yield from _frames(file, library.decompressobj)
    except zstandard.ZstdError as error:
        raise EOFError from error
