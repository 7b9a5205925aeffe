"""What every kind of corpus does, and the registry of the kinds."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from pydantic import Field

from qkv.config.base import Config, Kinds
from qkv.core.errors import DataError
from qkv.data.lines import Policy, ReadCounts, byte_lines, decode


class RawPair(NamedTuple):
    """A pair as read from its file; `line` (of a Parquet table: row) counts from 1."""

    src: str
    tgt: str
    line: int


class CorpusConfig(Config):
    """A source of pairs."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    """How the names of files of this kind end, apart from compression."""
    groups_answers: ClassVar[bool] = True
    """Whether pairs with the same source are several references of one item in evaluation."""

    weight: float = Field(default=1.0, gt=0, le=1000)
    """How often an epoch uses these pairs; 0.5 uses half of them, alternating between epochs."""
    prefix: str | None = None
    """Put before each source, such as `translate English to German: `, so that one model learns several tasks."""

    @property
    def alignment_file(self) -> Path | None:
        """Word alignments, a line for each line of the corpus; None: it has none."""
        return None

    def files(self) -> dict[str, Path]:
        """The files that it reads, by the key that names them; none for pairs in memory."""
        raise NotImplementedError

    def describe(self, root: Path) -> str:
        """Its name in messages."""
        return " and ".join(str(root / path) for path in self.files().values())

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        """Stream the pairs; paths are relative to `root`. Pairs with invalid text are treated as `invalid` says."""
        raise NotImplementedError

    def pairs_of(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        """The same with the prefix, but not before an empty source."""
        pairs = self.read(root, invalid, counts)
        if self.prefix is None:
            return pairs
        return (pair._replace(src=self.prefix + pair.src) if pair.src.strip() else pair for pair in pairs)


corpora = Kinds[CorpusConfig]("corpus")


def require_some(examples: int, path: Path, unit: str = "pair") -> None:
    if examples == 0:
        raise DataError(f"{path}: is empty; give a file with at least one {unit}")


def decoded_lines(path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, str | None]]:
    """The lines of a file with their numbers; None for one that is invalid and to be skipped."""
    for line, raw in enumerate(byte_lines(path), start=1):
        yield line, decode(raw, path, line, invalid, counts)


class OneFileCorpus(CorpusConfig):
    """Both sides in one file. An empty line is an empty pair: dropped later, and counted."""

    path: Path
    """The file; text may be compressed by gzip or zstandard."""

    def files(self) -> dict[str, Path]:
        return {"path": self.path}

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        path = root / self.path
        pairs = 0
        for line, sides in self.records(path, invalid, counts):
            pairs += 1
            counts.read += 1
            if sides is None:
                counts.invalid += 1
            else:
                yield RawPair(*sides, line)
        require_some(pairs, path)

    def records(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, tuple[str, str] | None]]:
        """Where each pair begins, and its sides; None where they hold invalid text that is to be skipped."""
        raise NotImplementedError
