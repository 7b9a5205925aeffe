"""`kind: memory`: pairs that a program already holds, such as a Python list."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from qkv.core.errors import DataError
from qkv.data.lines import Policy, ReadCounts, decode
from qkv.data.readers.base import CorpusConfig, RawPair, corpora

Pairs = tuple[tuple[str, str], ...]


@corpora.register
class MemoryCorpus(CorpusConfig):
    """Pairs in memory. A saved recipe keeps their checksum; the run folder keeps the prepared pairs themselves."""

    kind: Literal["memory"] = "memory"
    pairs: Pairs | None = Field(default=None, exclude=True, repr=False)
    """(source, target) pairs, given in Python; a saved recipe leaves them out."""
    checksum: str | None = None
    """SHA-256 of the pairs; computed from them."""

    @field_validator("checksum")
    @classmethod
    def _of_the_pairs(cls, checksum: str | None, info: ValidationInfo) -> str | None:
        pairs: Pairs | None = info.data.get("pairs")
        return checksum if pairs is None else checksum_of(pairs)

    def __eq__(self, other: object) -> bool:
        """Corpora with the same pairs are equal, whether or not the pairs are still in memory."""
        if not isinstance(other, MemoryCorpus):
            return NotImplemented
        return (self.checksum, self.weight) == (other.checksum, other.weight)

    def __hash__(self) -> int:
        return hash((self.checksum, self.weight))

    def files(self) -> dict[str, Path]:
        return {}

    def describe(self, root: Path) -> str:
        return "the pairs in memory"

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        if self.pairs is None:
            raise DataError(
                "the pairs of this recipe were in the memory of another program, and only their checksum was saved; "
                "give the pairs again: qkv.train(pairs, run=...)"
            )
        if not self.pairs:
            raise DataError("the list of pairs is empty; give at least one pair")
        for number, pair in enumerate(self.pairs, start=1):
            counts.read += 1
            # A Python string can hold lone surrogates and NUL, which no UTF-8 file can: the same policy for both.
            src, tgt = (
                decode(text.encode("utf-8", "surrogatepass"), "pairs", number, invalid, counts) for text in pair
            )
            if src is None or tgt is None:
                counts.invalid += 1
            else:
                yield RawPair(src, tgt, number)


def checksum_of(pairs: Pairs) -> str:
    """SHA-256 of the texts with their lengths, so that no two lists of pairs run into each other."""
    found = hashlib.sha256()
    for pair in pairs:
        for text in pair:
            raw = text.encode("utf-8", "surrogatepass")
            found.update(len(raw).to_bytes(8, "little") + raw)
    return found.hexdigest()
