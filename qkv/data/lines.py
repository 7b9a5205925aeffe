"""The lines of a text file as bytes, and bytes as text under a stated policy.

A line ends at the byte `\\n` and nowhere else: U+2028, form feeds and lone carriage returns are text. One
`\\r` before the `\\n` and a byte-order mark at the start of the file are removed. Plain, gzip and zstandard
files are told apart by their first bytes, not by their names.
"""

import codecs
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from qkv.core.errors import DataError
from qkv.core.reading import open_file

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
    """One of the concatenated compressed streams of a file."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def blocks(path: Path) -> Iterator[bytes]:
    """The decompressed content of `path`; raises DataError."""
    try:
        with open_file(path) as file:
            yield from decompressed(file, path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def decompressed(file: BinaryIO, name: Path | str) -> Iterator[bytes]:
    """The decompressed content of an open file; `name` stands in error messages."""
    start = file.read(8)
    file.seek(0)
    for magic, kind in NOT_READ.items():
        if start.startswith(magic):
            raise DataError(f"{name}: is {kind} file; decompress it, or use gzip or zstandard")
    if not is_packed(start):
        yield from iter(lambda: file.read(BLOCK), b"")
        return
    try:
        yield from _judged(_gzip(file) if start.startswith(GZIP) else _zstandard(file), file, name)
    except (EOFError, zlib.error) as error:
        raise DataError(f"{name}: the compressed data is damaged or ends too early; fetch the file again") from error


def is_packed(start: bytes) -> bool:
    """Whether a file with these first bytes is compressed."""
    return start.startswith((GZIP, ZSTD))


def _judged(content: Iterator[bytes], file: BinaryIO, name: Path | str) -> Iterator[bytes]:
    """The same blocks; the first ones are held back until there are enough of them to judge the expansion."""
    held: list[bytes] = []
    produced = 0
    for block in content:
        produced += len(block)
        held.append(block)
        if produced > RATIO_CHECKED_FROM:
            if produced > MAX_RATIO * file.tell():
                raise DataError(
                    f"{name}: expands more than {MAX_RATIO} times, like a compression bomb; decompress it first"
                )
            yield from held
            held.clear()
    yield from held


def _frames(file: BinaryIO, new_frame: Callable[[], _Frame]) -> Iterator[bytes]:
    """The contents of all frames of a file; raises EOFError if the last one is incomplete."""
    frame = None
    ready: list[bytes] = []
    size = 0
    while chunk := file.read(PACKED_BLOCK):
        # Some programs pad gzip files with zeros.
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
    """Frame by frame, because the library's stream reader does not notice a truncated file."""
    import zstandard

    library = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        yield from _frames(file, library.decompressobj)
    except zstandard.ZstdError as error:
        raise EOFError from error


Policy = Literal["error", "skip", "replace"]
"""What to do with a text that is not valid UTF-8: stop, leave the pair out, or put U+FFFD in."""

MAX_LINE = 16 << 20
"""A longer line is not a sentence; the limit also bounds memory."""


@dataclass
class ReadCounts:
    """Counts of a reader: pairs read (valid or not), and pairs skipped or texts repaired because of invalid UTF-8."""

    read: int = 0
    invalid: int = 0
    replaced: int = 0


def byte_lines(path: Path) -> Iterator[bytes]:
    """The lines of `path` without their ends; a last line without `\\n` counts if it is not empty."""
    return split_lines(blocks(path), path)


def split_lines(content: Iterable[bytes], name: Path | str) -> Iterator[bytes]:
    """The same for the content of a file that came from elsewhere; `name` stands in error messages."""
    for number, line in enumerate(lines_or_gaps(content), start=1):
        if line is None:
            raise too_long(name, number)
        yield line


def lines_or_gaps(content: Iterable[bytes]) -> Iterator[bytes | None]:
    """The lines of some content without their ends; None in place of a line that is too long, which is not kept."""
    rest = b""
    skipping = False
    for block in content:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        if skipping and lines:
            # Its gap was yielded when it became too long.
            del lines[0]
            skipping = False
        for line in lines:
            if len(line) > MAX_LINE:
                yield None
            else:
                yield line[:-1] if line.endswith(b"\r") else line
        if len(rest) > MAX_LINE and not skipping:
            skipping = True
            yield None
        if skipping:
            rest = b""
    if rest:
        yield rest.removesuffix(b"\r")


def too_long(name: Path | str, line: int) -> DataError:
    return DataError(
        f"{name}:{line}: the line is longer than {MAX_LINE >> 20} MiB; is it a text file, one text a line?"
    )


def decode(
    raw: bytes,
    name: Path | str,
    line: int,
    policy: Policy,
    counts: ReadCounts,
    remedy: str = "set data.invalid_utf8 to skip or replace",
) -> str | None:
    """`raw` as text; None if it is invalid and the policy is `skip`. A NUL byte counts as invalid."""
    mark = len(codecs.BOM_UTF8) if line == 1 and raw.startswith(codecs.BOM_UTF8) else 0
    try:
        text = raw[mark:].decode("utf-8")
        wrong = text.find("\0")
        if wrong < 0:
            return text
        wrong = len(text[:wrong].encode())
    except UnicodeDecodeError as error:
        wrong = error.start
    if policy == "error":
        raise DataError(f"{name}:{line}:{mark + wrong + 1}: {_complaint(raw, remedy)}")
    if policy == "skip":
        return None
    counts.replaced += 1
    return raw[mark:].decode("utf-8", errors="replace").replace("\0", "\ufffd")


def _complaint(raw: bytes, remedy: str) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "the file looks like UTF-16; save it as UTF-8"
    return f"not valid UTF-8 text from this byte on; fix the line, or {remedy}"
