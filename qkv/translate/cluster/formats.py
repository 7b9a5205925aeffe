"""Rows of a shard as text, JSON lines and Parquet: what is read, and what is written with the results beside it.

A row that cannot be read has no text but a problem. It keeps its place in the output: an empty line, or a record
whose results are null.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from qkv.core.errors import DataError
from qkv.data.lines import BLOCK, ReadCounts, decode, decompressed, lines_or_gaps, too_long
from qkv.data.readers.jsonl import string_at
from qkv.data.readers.parquet import is_text
from qkv.data.texts import REMEDY, Invalid
from qkv.translate.cluster.inputs import JSON_LINES, PARQUET, Shard, parquet_file


@dataclass(frozen=True)
class RowResult:
    """What a job makes of one text."""

    line: str
    """With its line end, for text files."""
    columns: Mapping[str, Any]
    """For JSON lines and tables."""
    remarks: tuple[str, ...] = ()
    """What is counted: `cut`, for example."""


@dataclass(frozen=True)
class Rows:
    """The rows of a shard."""

    texts: list[str | None]
    problems: dict[int, str]
    """Why a row has no text, by its place in the shard."""
    records: Any
    """What is written again beside the results."""


Columns = Mapping[str, str]
"""The names of new columns and their types, as Arrow calls them."""


class Format(Protocol):
    """How rows are read and written."""

    @property
    def ending(self) -> str:
        """Of the names of files."""

    def read(self, shard: Shard, column: str, invalid: Invalid) -> Rows: ...

    def write(self, rows: Rows, results: Sequence[RowResult | None], columns: Columns) -> bytes: ...


@dataclass(frozen=True)
class Lines:
    """A text a line."""

    ending: str

    def read(self, shard: Shard, column: str, invalid: Invalid) -> Rows:
        texts: list[str | None] = []
        problems = {}
        for place, raw in enumerate(_lines(shard)):
            name, number = shard.file.name, shard.first + place + 1
            try:
                if raw is None:
                    raise too_long(name, number)
                texts.append(decode(raw, name, number, invalid, ReadCounts(), REMEDY))
            except DataError as error:
                texts.append(None)
                problems[place] = str(error)
        return Rows(texts, problems, None)

    def write(self, rows: Rows, results: Sequence[RowResult | None], columns: Columns) -> bytes:
        return "".join("\n" if result is None else result.line for result in results).encode()


@dataclass(frozen=True)
class JsonLines:
    """A JSON object a line, to which the results are added."""

    ending: str = ".jsonl"

    def read(self, shard: Shard, column: str, invalid: Invalid) -> Rows:
        lines = Lines(self.ending).read(shard, column, invalid)
        records: list[dict[str, Any]] = []
        for place, line in enumerate(lines.texts):
            records.append({})
            if line is None:
                continue
            lines.texts[place] = None
            name, number = shard.file.name, shard.first + place + 1
            try:
                records[place] = _json_object(line, name, number)
                # JSON can spell lone surrogates and NUL, which no UTF-8 file can hold.
                text = string_at(records[place], column, name, number).encode("utf-8", "surrogatepass")
                lines.texts[place] = decode(text, name, number, invalid, ReadCounts(), REMEDY)
            except DataError as error:
                lines.problems[place] = str(error)
        return Rows(lines.texts, lines.problems, records)

    def write(self, rows: Rows, results: Sequence[RowResult | None], columns: Columns) -> bytes:
        nothing = dict.fromkeys(columns)
        each = (
            {**record, **(nothing if result is None else result.columns)}
            for record, result in zip(rows.records, results, strict=True)
        )
        return "".join(_json_line(record) + "\n" for record in each).encode()


@dataclass(frozen=True)
class Parquet:
    """A table, to which the results are added as columns."""

    ending: str = ".parquet"

    def read(self, shard: Shard, column: str, invalid: Invalid) -> Rows:
        table = _table(shard)
        if table.schema.names.count(column) != 1:
            there = ", ".join(repr(name) for name in table.schema.names) or "none"
            raise DataError(f"{shard.file.name}: has no single column {column!r}; its columns are {there}")
        texts: list[str | None] = []
        problems = {}
        for place, value in enumerate(_strings(table.column(column), shard, column)):
            number = shard.first + place + 1
            text = None
            try:
                if value is None:
                    raise DataError(f"{shard.file.name}:{number}: column {column!r} is null in this row; fill it")
                text = decode(value, shard.file.name, number, invalid, ReadCounts(), REMEDY)
            except DataError as error:
                problems[place] = str(error)
            texts.append(text)
        return Rows(texts, problems, table)

    def write(self, rows: Rows, results: Sequence[RowResult | None], columns: Columns) -> bytes:
        import pyarrow
        from pyarrow import parquet

        table = rows.records
        for name, kind in columns.items():
            values = [None if result is None else result.columns[name] for result in results]
            if name in table.schema.names:
                table = table.drop_columns([name])
            table = table.append_column(name, pyarrow.array(values, _type(kind)))
        content = io.BytesIO()
        parquet.write_table(table, content)
        return content.getvalue()


def format_of(form: str, ending: str) -> Format:
    """The format of files of this form; `ending` is that of the parts made of text."""
    if form == JSON_LINES:
        return JsonLines()
    return Parquet() if form == PARQUET else Lines(ending)


def _lines(shard: Shard) -> Iterator[bytes | None]:
    """None in place of a line that is too long."""
    with shard.file.opened() as opened:
        if shard.offset is None:
            yield from islice(lines_or_gaps(decompressed(opened, shard.file.name)), shard.rows)
            return
        opened.seek(shard.offset)
        blocks = iter(lambda: opened.read(BLOCK), b"")
        yield from islice(lines_or_gaps(blocks), shard.rows)


def _json_line(record: Mapping[str, Any]) -> str:
    line = json.dumps(record, ensure_ascii=False)
    # UTF-8 has no lone surrogates; JSON spells them in ASCII.
    return line if line.isprintable() or not any("\ud800" <= sign <= "\udfff" for sign in line) else json.dumps(record)


def _json_object(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}:{number}: is not JSON ({error}); write one JSON object a line") from error
    if not isinstance(found, dict):
        raise DataError(f"{name}:{number}: is not a JSON object; write one JSON object a line")
    return found


def _table(shard: Shard) -> Any:
    """The rows of the shard, from the row groups that have some of them."""
    import pyarrow

    with shard.file.opened() as opened:
        file = parquet_file(opened, shard.file)
        parts, start, end = [], 0, shard.first + shard.rows
        for number in range(file.metadata.num_row_groups):
            stop = start + file.metadata.row_group(number).num_rows
            if start < end and stop > shard.first:
                group = file.read_row_group(number, use_threads=False)
                low = max(shard.first - start, 0)
                parts.append(group.slice(low, min(end, stop) - start - low))
            start = stop
        return pyarrow.concat_tables(parts)


def _strings(column: Any, shard: Shard, name: str) -> list[bytes | None]:
    """Bytes, because Parquet does not check that strings are UTF-8."""
    import pyarrow

    if not is_text(column.type, pyarrow.types):
        raise DataError(f"{shard.file.name}: column {name!r} holds {column.type}, not strings; convert it")
    values: list[bytes | None] = column.cast(pyarrow.large_string()).cast(pyarrow.large_binary()).to_pylist()
    return values


def _type(kind: str) -> Any:
    import pyarrow

    return pyarrow.list_(pyarrow.float32()) if kind == "list" else pyarrow.type_for_alias(kind)
