"""`kind: text`: two files, line by line in parallel."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Literal

from qkv.core.errors import DataError
from qkv.data.lines import Policy, ReadCounts, byte_lines, decode
from qkv.data.readers.base import CorpusConfig, RawPair, corpora, require_some


@corpora.register
class TextCorpus(CorpusConfig):
    """Two text files, line by line in parallel."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"src": "pairs.src", "tgt": "pairs.tgt"}

    kind: Literal["text"] = "text"
    groups_answers: ClassVar[bool] = False  # line n is question n, as in the test sets of translation
    src: Path
    """Source file, one text a line."""
    tgt: Path
    """Target file; its line n belongs to line n of the source."""

    def files(self) -> dict[str, Path]:
        return {"src": self.src, "tgt": self.tgt}

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        src_path, tgt_path = root / self.src, root / self.tgt
        line = 0
        both = zip_longest(byte_lines(src_path), byte_lines(tgt_path))
        for line, (src_raw, tgt_raw) in enumerate(both, start=1):
            if src_raw is None or tgt_raw is None:
                short, long = (src_path, tgt_path) if src_raw is None else (tgt_path, src_path)
                raise _different_lengths(short, line - 1, long, line + sum(1 for _ in both))
            counts.read += 1
            src = decode(src_raw, src_path, line, invalid, counts)
            tgt = decode(tgt_raw, tgt_path, line, invalid, counts)
            if src is None or tgt is None:
                counts.invalid += 1
            else:
                yield RawPair(src, tgt, line)
        require_some(line, src_path)


def _different_lengths(short: Path, short_lines: int, long: Path, long_lines: int) -> DataError:
    if short_lines == 0:
        return DataError(f"{short}: is empty, while {long} has {long_lines:,} lines")
    return DataError(
        f"{short}: has {short_lines:,} lines, but {long} has {long_lines:,}; line n of one must belong to line n of "
        "the other, so find the line that is missing"
    )
