"""`kind: tsv`: columns with a tab between them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers.base import corpora, decoded_lines
from qkv.data.readers.table import Column, Row, TableCorpus


@corpora.register
class TsvCorpus(TableCorpus):
    """Columns with a tab between them; nothing is quoted or escaped."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "pairs.tsv"}

    kind: Literal["tsv"] = "tsv"
    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".tab")
    src_column: Column = 0
    """Column of the source: its number, counted from 0, or its name in the header."""
    tgt_column: Column = 1
    """Column of the target: its number, counted from 0, or its name in the header."""
    header: bool = False
    """Whether the first line names the columns and is not a pair; a column that is given by name implies it."""

    @property
    def headed(self) -> bool:
        return self.header or isinstance(self.src_column, str) or isinstance(self.tgt_column, str)

    def columns(self) -> dict[str, Column]:
        return {"src_column": self.src_column, "tgt_column": self.tgt_column}

    def rows(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[Row]:
        for line, text in decoded_lines(path, invalid, counts):
            yield line, None if text is None else text.split("\t") if text else []
