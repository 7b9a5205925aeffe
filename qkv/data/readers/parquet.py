"""`kind: parquet`: two columns of a table, row by row in bounded memory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from qkv.core.errors import DataError, UsageError
from qkv.core.reading import open_file
from qkv.data.lines import Policy, ReadCounts, decode
from qkv.data.readers.base import OneFileCorpus, corpora

ROWS_AT_A_TIME = 8192


@corpora.register
class ParquetCorpus(OneFileCorpus):
    """Two string columns of a Parquet table; needs the extra `qkv[parquet]`."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "pairs.parquet"}

    kind: Literal["parquet"] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)
    src: str = "src"
    """Column of the source."""
    tgt: str = "tgt"
    """Column of the target."""

    def records(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, tuple[str, str] | None]]:
        for row, (src_raw, tgt_raw) in enumerate(_rows(path, self.src, self.tgt), start=1):
            src = decode(src_raw, path, row, invalid, counts)
            tgt = decode(tgt_raw, path, row, invalid, counts)
            yield row, None if src is None or tgt is None else (src, tgt)


def string_columns(path: Path) -> list[str]:
    """The names of the columns that hold text."""
    with _opened(path) as (table, types):
        return [field.name for field in table.schema_arrow if is_text(field.type, types)]


def _rows(path: Path, src: str, tgt: str) -> Iterator[tuple[bytes, bytes]]:
    """The values of columns `src` and `tgt`; bytes, because Parquet does not check that strings are UTF-8."""
    row = 0
    with _opened(path) as (table, types):
        from pyarrow import large_binary

        _check_columns(table.schema_arrow, path, (src, tgt), types)
        for batch in table.iter_batches(batch_size=ROWS_AT_A_TIME, columns=sorted({src, tgt}), use_threads=False):
            values = [batch.column(name).cast(large_binary()).to_pylist() for name in (src, tgt)]
            for pair in zip(*values, strict=True):
                row += 1
                if None in pair:
                    name = src if pair[0] is None else tgt
                    raise DataError(f"{path}:{row}: column {name!r} is null in this row; remove or fill the row")
                yield pair


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The table, and pyarrow's questions about types; what goes wrong inside is said in one sentence."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("Parquet files need pyarrow; install it with: pip install 'qkv[parquet]'") from error
    try:
        with open_file(path) as file, parquet.ParquetFile(file) as table:
            yield table, pyarrow.types
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: is not a whole Parquet file ({_first_line(error)}); write it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or _first_line(error)})") from error


def _check_columns(schema: Any, path: Path, names: tuple[str, str], types: Any) -> None:
    for name in names:
        if schema.names.count(name) != 1:
            there = ", ".join(repr(column) for column in schema.names) or "none"
            raise DataError(f"{path}: has no single column {name!r}; its columns are {there}")
        if not is_text(schema.field(name).type, types):
            raise DataError(f"{path}: column {name!r} holds {schema.field(name).type}, not strings; convert it")


def is_text(kind: Any, types: Any) -> bool:
    """Whether a column of this type holds strings; `types` is `pyarrow.types`."""
    value = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(value) or types.is_large_string(value))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".")
