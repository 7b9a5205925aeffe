"""The lines of a text file as bytes, and bytes as text under a stated policy.

A line ends at the byte `\\n` and nowhere else: U+2028, form feeds and lone carriage returns are text. One
`\\r` before the `\\n` and a byte-order mark at the start of the file are removed. Plain, gzip and zstandard
files are told apart by their first bytes, not by their names.
"""

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qkv.data.unpack import blocks
from qkv.errors import DataError

Policy = Literal["error", "skip", "replace"]
"""What to do with a text that is not valid UTF-8: stop, leave the pair out, or put U+FFFD in."""

MAX_LINE = 16 << 20
"""A longer line is not a sentence; the limit also bounds memory."""


@dataclass
class ReadCounts:
    """What a reader met: pairs read (good or bad), pairs left out and texts mended because of invalid UTF-8."""

    read: int = 0
    invalid: int = 0
    replaced: int = 0


def byte_lines(path: Path) -> Iterator[bytes]:
    """The lines of `path` without their ends; a last line without `\\n` counts if it is not empty."""
    return split_lines(blocks(path), path)


def split_lines(content: Iterable[bytes], name: Path | str) -> Iterator[bytes]:
    """The same for the content of a file that came from elsewhere; `name` stands in error messages."""
    rest = b""
    number = 0
    for block in content:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            number += 1
            if len(line) > MAX_LINE:
                raise _too_long(name, number)
            yield line[:-1] if line.endswith(b"\r") else line
        if len(rest) > MAX_LINE:
            raise _too_long(name, number + 1)
    if rest:
        yield rest.removesuffix(b"\r")


def _too_long(name: Path | str, line: int) -> DataError:
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
    return f"not valid UTF-8 text from this byte on; mend the line, or {remedy}"
