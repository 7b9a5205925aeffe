"""`kind: text`: two files, line by line in parallel."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    alignments: Path | None = None
    """Word alignments in Pharaoh format (`0-0 1-2`: source word - target word), for objective.attention; null: none."""

    @property
    def alignment_file(self) -> Path | None:
        return self.alignments

    def files(self) -> dict[str, Path]:
        files = {"src": self.src, "tgt": self.tgt}
        return files if self.alignments is None else files | {"alignments": self.alignments}

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        paths = [root / path for path in self.files().values()]
        line = 0
        lines = zip_longest(*map(byte_lines, paths))
        for line, raw in enumerate(lines, start=1):
            if None in raw:
                raise _different_lengths(paths, line, raw, lines)
            counts.read += 1
            src, tgt = (decode(*text, line, invalid, counts) for text in zip(raw[:2], paths[:2], strict=True))
            if src is None or tgt is None:
                counts.invalid += 1
            else:
                yield RawPair(src, tgt, line)
        require_some(line, paths[0])


def _different_lengths(
    paths: Sequence[Path], line: int, raw: Sequence[bytes | None], rest: Iterable[Sequence[bytes | None]]
) -> DataError:
    """One of the files has no `line`: which is the short one, and how long is another?"""
    ended, longer = raw.index(None), next(number for number, each in enumerate(raw) if each is not None)
    short, long = paths[ended], paths[longer]
    short_lines, long_lines = line - 1, line + sum(each[longer] is not None for each in rest)
    if short_lines == 0:
        return DataError(f"{short}: is empty, while {long} has {long_lines:,} lines")
    return DataError(
        f"{short}: has {short_lines:,} lines, but {long} has {long_lines:,}; line n of one must belong to line n of "
        "the other, so find the line that is missing"
    )
