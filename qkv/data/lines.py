"""The lines of a text file as bytes, and bytes as text under a stated policy.

A line ends at the byte `\\n` and nowhere else: U+2028, form feeds and lone carriage returns are text. One
`\\r` before the `\\n` and a byte-order mark at the start of the file are removed. Plain, gzip and zstandard
files are told apart by their first bytes, not by their names.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from qkv.errors import DataError

Policy = Literal["error", "skip", "replace"]
"""What to do with a text that is not valid UTF-8: stop, leave the pair out, or put U+FFFD in."""

BLOCK = 1 << 20
MAX_LINE = 16 << 20
"""A longer line is not a sentence; the limit also bounds memory on a compressed bomb."""
MAX_RATIO = 200
RATIO_CHECKED_FROM = 8 << 20
"""The expansion of compressed files is judged after this many bytes, so that small repetitive files pass."""

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
NOT_READ = {b"\xfd7zXZ\x00": "an xz", b"PK\x03\x04": "a zip"}


@dataclass
class ReadCounts:
    """What a reader met: pairs read (good or bad), pairs left out and texts mended because of invalid UTF-8."""

    read: int = 0
    invalid: int = 0
    replaced: int = 0


def byte_lines(path: Path) -> Iterator[bytes]:
    """The lines of `path` without their ends; a last line without `\\n` counts if it is not empty."""
    return split_lines(_blocks(path), path)


def split_lines(blocks: Iterable[bytes], name: Path | str) -> Iterator[bytes]:
    """The same for the content of a file that came from elsewhere; `name` stands in error messages."""
    rest = b""
    for block in blocks:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        if len(rest) > MAX_LINE:
            raise DataError(f"{name}: a line is longer than {MAX_LINE >> 20} MiB; is it a text file, one text a line?")
        for line in lines:
            yield line[:-1] if line.endswith(b"\r") else line
    if rest:
        yield rest.removesuffix(b"\r")


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
    return f"not valid UTF-8 text from this byte on; mend the line, or {remedy}"


def _blocks(path: Path) -> Iterator[bytes]:
    """The decompressed content of `path`, a bounded piece at a time."""
    try:
        with path.open("rb") as file:
            if not file.seekable():
                raise DataError(f"{path}: is not a regular file; give a file, or use standard input")
            start = file.read(8)
            file.seek(0)
            produced = 0
            for block in _decompressed(file, start, path):
                produced += len(block)
                if produced > RATIO_CHECKED_FROM and produced > MAX_RATIO * file.tell():
                    raise DataError(
                        f"{path}: expands more than {MAX_RATIO} times, like a compression bomb; decompress it first"
                    )
                yield block
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: the compressed data is damaged or ends too early; fetch the file again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _decompressed(file: BinaryIO, start: bytes, path: Path) -> Iterator[bytes]:
    for magic, name in NOT_READ.items():
        if start.startswith(magic):
            raise DataError(f"{path}: is {name} file; decompress it, or use gzip or zstandard")
    if start.startswith(ZSTD):
        return _unzstd(file)
    stream = gzip.GzipFile(fileobj=file) if start.startswith(GZIP) else file
    return iter(lambda: stream.read(BLOCK), b"")


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    """All frames of a zstandard file. The stream reader of the library takes a cut file for a whole one, so
    frames are followed here; 1 KiB of input cannot expand beyond 32 MiB, which bounds memory.
    """
    import zstandard

    library = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    frame = None
    ready: list[bytes] = []
    size = 0
    try:
        while chunk := file.read(1024):
            while chunk:
                frame = frame or library.decompressobj()
                ready.append(frame.decompress(chunk))
                size += len(ready[-1])
                chunk = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
            if size >= BLOCK:
                yield b"".join(ready)
                ready, size = [], 0
    except zstandard.ZstdError as error:
        raise EOFError from error
    yield b"".join(ready)
    if frame is not None:
        raise EOFError
