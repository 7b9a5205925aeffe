"""Lines end at the byte \\n only; damage is reported, never a crash."""

import gzip
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from qkv.core.errors import DataError
from qkv.data import lines
from qkv.data.lines import ReadCounts, byte_lines, decode, lines_or_gaps

INSIDE = ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e", "\r"]
"""Characters that `str.splitlines` takes for the end of a line."""


def text_lines(path: Path) -> list[str | None]:
    counts = ReadCounts()
    return [decode(raw, path, line, "error", counts) for line, raw in enumerate(byte_lines(path), start=1)]


@pytest.mark.parametrize("separator", INSIDE)
def test_only_newline_ends_a_line(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(f"a{separator}b\nc\n".encode())
    assert text_lines(path) == [f"a{separator}b", "c"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb", ["a\r", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\nb\r", ["a", "b"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\n\n", ["", ""]),
        (b"", []),
    ],
    ids=["crlf", "one cr only", "no final newline", "no newline but cr", "bom", "bom elsewhere", "blank", "empty"],
)
def test_ends_and_marks(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    assert text_lines(path) == expected


@pytest.mark.parametrize("size", [lines.BLOCK - 1, lines.BLOCK, lines.BLOCK + 1, 3 * lines.BLOCK])
def test_long_lines_across_blocks(tmp_path: Path, size: int) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a" * size + b"\r\n" + b"b\n")
    assert [len(line) for line in byte_lines(path)] == [size, 1]


def test_endless_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a" * (lines.MAX_LINE + lines.BLOCK))
    with pytest.raises(DataError, match=r"text:1: the line is longer than 16 MiB"):
        list(byte_lines(path))


@pytest.mark.parametrize("size", [lines.MAX_LINE + 1, lines.MAX_LINE + lines.BLOCK, lines.MAX_LINE + 3 * lines.BLOCK])
@pytest.mark.parametrize("block", [lines.BLOCK, 5 * lines.BLOCK + 1, 64 * lines.BLOCK])
def test_a_line_that_is_too_long_leaves_one_gap(size: int, block: int) -> None:
    """Wherever the blocks end, and also as the last line."""
    long = b"a" * size
    content = b"x\n" + long + b"\ny\r\n" + long
    pieces = [content[start : start + block] for start in range(0, len(content), block)]
    assert list(lines_or_gaps(pieces)) == [b"x", None, b"y", None]


def test_an_endless_line_is_noticed_before_its_end() -> None:
    """A file without any line end is not read to its last byte."""
    found = lines_or_gaps(itertools.repeat(b"a" * lines.BLOCK))
    assert next(found) is None


def compress_zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


BOTH = pytest.mark.parametrize("compress", [gzip.compress, compress_zstd], ids=["gzip", "zstd"])
MANY = b"".join(b"%d line %d\n" % (i * i * 7919, i) for i in range(100_000))


@BOTH
@pytest.mark.parametrize("name", ["text.gz", "text.zst", "text"])
def test_compressed_files_whatever_their_name(tmp_path: Path, compress: Callable[[bytes], bytes], name: str) -> None:
    path = tmp_path / name
    path.write_bytes(compress(MANY))
    assert list(byte_lines(path)) == MANY.split(b"\n")[:-1]


@BOTH
def test_members_one_after_another(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "text"
    path.write_bytes(compress(b"a\nb") + compress(b"") + compress(b"c\n"))
    assert list(byte_lines(path)) == [b"a", b"bc"]


def test_plain_text_named_as_compressed(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(b"a\n")
    assert list(byte_lines(path)) == [b"a"]


@BOTH
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.9999])
def test_truncated(tmp_path: Path, compress: Callable[[bytes], bytes], part: float) -> None:
    path = tmp_path / "text"
    whole = compress(MANY)
    path.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(DataError, match="damaged or ends too early"):
        list(byte_lines(path))


def test_gzip_with_wrong_checksum(tmp_path: Path) -> None:
    path = tmp_path / "text"
    damaged = bytearray(gzip.compress(MANY))
    damaged[-6] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="damaged"):
        list(byte_lines(path))


def test_zstd_with_rubbish_after_it(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(compress_zstd(b"a\n") + b"rubbish")
    with pytest.raises(DataError, match="damaged"):
        list(byte_lines(path))


@BOTH
@pytest.mark.parametrize("filling", [b"\0", b"\n", b"a b\n"], ids=["one line", "blank lines", "short lines"])
def test_of_a_bomb_no_line_is_read(tmp_path: Path, compress: Callable[[bytes], bytes], filling: bytes) -> None:
    """Its first megabytes are decompressed and judged; to look at their lines would take many times as long."""
    path = tmp_path / "bomb"
    bomb = compress(filling * ((40 << 20) // len(filling)))
    # Whoever reads to its end finds that the end is missing.
    path.write_bytes(bomb[:-8])
    with pytest.raises(DataError, match="expands more than 200 times, like a compression bomb"):
        next(lines.blocks(path))


def test_a_bomb_behind_honest_text_is_stopped_within_the_ratio(tmp_path: Path) -> None:
    path = tmp_path / "text"
    honest = gzip.compress(random.Random(0).randbytes(20_000))
    path.write_bytes(honest + gzip.compress(b"a b\n" * (10 << 20)))
    with pytest.raises(DataError, match="like a compression bomb"):
        sum(len(line) for line in byte_lines(path))


def test_zeros_behind_a_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(gzip.compress(b"a\n") + b"\0" * 5000 + gzip.compress(b"b\n") + b"\0" * 100)
    assert list(byte_lines(path)) == [b"a", b"b"]


def test_what_is_no_file_is_named_for_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device"), (tmp_path, "a folder")):
        with pytest.raises(DataError, match=words):
            next(byte_lines(path))


def test_a_long_line_inside_a_block_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "text"
    text = b"a\n" + random.Random(0).randbytes(1 << 20).replace(b"\n", b" ") * 20 + b"\n"
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(text))
    with pytest.raises(DataError, match=r"text:2: the line is longer than 16 MiB"):
        list(byte_lines(path))


def test_repetitive_text_is_not_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(gzip.compress(b"the same line\n" * 100_000))
    assert sum(1 for _ in byte_lines(path)) == 100_000


@pytest.mark.parametrize(("start", "name"), [(b"\xfd7zXZ\x00", "xz"), (b"PK\x03\x04", "zip")])
def test_other_compression_is_named(tmp_path: Path, start: bytes, name: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(start + b"more")
    with pytest.raises(DataError, match=f"is an? {name} file"):
        list(byte_lines(path))


def test_a_pipe_is_no_file() -> None:
    """As `--input <(command)` gives one."""
    reader, writer = os.pipe()
    os.close(writer)
    try:
        with pytest.raises(DataError, match=r"is a pipe; write its content to a file, or give it as standard input"):
            list(byte_lines(Path(f"/dev/fd/{reader}")))
    finally:
        os.close(reader)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(byte_lines(tmp_path / "none"))
    with pytest.raises(DataError, match="cannot be read"):
        list(byte_lines(tmp_path))


BAD = {
    "lone byte": (b"ab\xffcd", 3, "ab\ufffdcd"),
    "latin-1": ("Käse".encode("latin-1"), 2, "K\ufffdse"),
    "overlong": (b"a\xc0\xaf", 2, "a\ufffd\ufffd"),
    "surrogate": (b"\xed\xa0\x80", 1, "\ufffd\ufffd\ufffd"),
    "cut character": ("aé".encode()[:-1], 2, "a\ufffd"),
    "NUL": ("é\0b".encode(), 3, "é\ufffdb"),
}


@pytest.mark.parametrize(("raw", "byte", "mended"), BAD.values(), ids=BAD.keys())
def test_invalid_text_under_each_policy(raw: bytes, byte: int, mended: str) -> None:
    path, counts = Path("some.txt"), ReadCounts()
    with pytest.raises(DataError, match=rf"^some\.txt:7:{byte}: not valid UTF-8"):
        decode(raw, path, 7, "error", counts)
    assert decode(raw, path, 7, "skip", counts) is None
    assert counts == ReadCounts()
    assert decode(raw, path, 7, "replace", counts) == mended
    assert counts == ReadCounts(replaced=1)


def test_invalid_byte_at_every_position() -> None:
    for position in range(100):
        raw = b"x" * position + b"\x80" + b"y" * (99 - position)
        with pytest.raises(DataError, match=rf"^f:2:{position + 1}: "):
            decode(raw, Path("f"), 2, "error", ReadCounts())


def test_byte_counts_from_the_start_of_the_file_line() -> None:
    with pytest.raises(DataError, match=r"^f:1:5: "):
        decode(b"\xef\xbb\xbfa\xff", Path("f"), 1, "error", ReadCounts())


def test_utf16_is_recognised() -> None:
    with pytest.raises(DataError, match=r"^f:1:1: the file looks like UTF-16"):
        decode("hello".encode("utf-16"), Path("f"), 1, "error", ReadCounts())
