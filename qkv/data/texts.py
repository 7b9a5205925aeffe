"""One text a line, from a file or from standard input, for programs that read and do not train."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from qkv.core.errors import DataError
from qkv.data.lines import BLOCK, ReadCounts, byte_lines, decode, split_lines

Invalid = Literal["error", "replace"]
"""What to do with a line that is not valid UTF-8: stop, or put U+FFFD in. A line is never left out."""
REMEDY = "read it with --invalid-utf8 replace"
NO_CHOICE = "convert the file, for example by iconv"
STDIN = "standard input"


@dataclass(frozen=True)
class Survey:
    """What identifies the content of a file, and how many lines there are."""

    sha256: str
    lines: int


def read_texts(path: Path, invalid: Invalid | None = None) -> Iterator[str]:
    """The lines of a file, which may be compressed. None: the user has no choice, so an error names no option."""
    return _decoded(byte_lines(path), path, invalid)


def stream_texts(stream: BinaryIO, invalid: Invalid = "error") -> Iterator[str]:
    """The lines of a stream, each as soon as it is there."""
    descriptor = stream.fileno()
    return _decoded(split_lines(iter(lambda: os.read(descriptor, BLOCK), b""), STDIN), STDIN, invalid)


def _decoded(raw: Iterator[bytes], name: Path | str, invalid: Invalid | None) -> Iterator[str]:
    counts = ReadCounts()
    remedy = REMEDY if invalid else NO_CHOICE
    for number, line in enumerate(raw, start=1):
        text = decode(line, name, number, invalid or "error", counts, remedy)
        assert text is not None
        yield text


def survey(path: Path) -> Survey:
    """Read the whole file once."""
    digest = hashlib.sha256()
    lines = 0
    for line in byte_lines(path):
        digest.update(line)
        digest.update(b"\n")
        lines += 1
    return Survey(digest.hexdigest(), lines)


def count_ahead(stream: BinaryIO) -> int | None:
    """How many lines a stream holds, without reading from it; None if it is no file that can be looked into."""
    descriptor = stream.fileno()
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    place, lines, block = os.lseek(descriptor, 0, os.SEEK_CUR), 0, b"\n"
    while more := os.pread(descriptor, BLOCK, place):
        place += len(more)
        lines += more.count(b"\n")
        block = more
    return lines + (not block.endswith(b"\n"))


def paired(
    first: Iterator[str], second: Iterator[str], names: tuple[Path | str, Path | str]
) -> Iterator[tuple[str, str]]:
    """Line by line from two files, which must be equally long."""
    number = 0
    for text in first:
        number += 1
        other = next(second, None)
        if other is None:
            raise DataError(f"{names[1]}: has only {number - 1:,} lines, but {names[0]} has more; give one for each")
        yield text, other
    if next(second, None) is not None:
        raise DataError(f"{names[0]}: has only {number:,} lines, but {names[1]} has more; give one for each")
