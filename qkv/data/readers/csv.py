"""`kind: csv`: comma-separated values, quoted as spreadsheets do it (RFC 4180)."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import field_validator, model_validator

from qkv.core.errors import DataError
from qkv.data.lines import MAX_LINE, Policy, ReadCounts, byte_lines, decode
from qkv.data.readers.base import corpora
from qkv.data.readers.table import Column, Row, TableCorpus


@corpora.register
class CsvCorpus(TableCorpus):
    """Named columns; a field in double quotes may hold the delimiter, line ends, and quotes written twice."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "pairs.csv"}

    kind: Literal["csv"] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    src: Column = "src"
    """Column of the source: its name in the header, or its number, counted from 0."""
    tgt: Column = "tgt"
    """Column of the target: its name in the header, or its number, counted from 0."""
    delimiter: str = ","
    """The character between two fields, such as ";" or a tab."""
    header: bool = True
    """Whether the first line names the columns; without it, give their numbers."""

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if len(value) != 1 or value in '"\r\n':
            raise ValueError("must be one character, and not a quote or a line end")
        return value

    @model_validator(mode="after")
    def _names_need_a_header(self) -> "CsvCorpus":
        if not self.header and (isinstance(self.src, str) or isinstance(self.tgt, str)):
            raise ValueError("without a header, src and tgt are the numbers of columns, counted from 0")
        return self

    @property
    def headed(self) -> bool:
        return self.header

    def columns(self) -> dict[str, Column]:
        return {"src": self.src, "tgt": self.tgt}

    def rows(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[Row]:
        skipped: list[int] = []
        # A setting of the process; its default of 131,072 characters is less than a line may have.
        csv.field_size_limit(MAX_LINE)
        reader = csv.reader(_lines(path, invalid, counts, skipped), delimiter=self.delimiter, strict=True)
        line = 1
        try:
            for fields in reader:
                yield line, None if skipped else fields
                skipped.clear()
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}:{line}: {_complaint(error)}") from error


def _complaint(error: csv.Error) -> str:
    if "field limit" in str(error):
        return (
            f"has a field of more than {MAX_LINE:,} characters that begins in this row; is its closing quote missing?"
        )
    return (
        f"is not valid CSV from this line on ({error}); put a field that holds quotes into quotes and write each of "
        "them twice, or use kind tsv, which knows no quotes"
    )


def _lines(path: Path, invalid: Policy, counts: ReadCounts, skipped: list[int]) -> Iterator[str]:
    """The lines for the parser; those whose row is to be left out are noted in `skipped`."""
    for line, raw in enumerate(byte_lines(path), start=1):
        text = decode(raw, path, line, invalid, counts)
        if text is None:
            skipped.append(line)
            text = raw.decode(errors="replace")
        yield text + "\n"
