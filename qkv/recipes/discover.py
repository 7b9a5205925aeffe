"""Finds train, dev and test files and their columns: the `data` group of a new recipe."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from qkv.core.errors import DataError, UsageError
from qkv.data.lines import ReadCounts
from qkv.data.readers import CsvCorpus, TsvCorpus
from qkv.data.readers.base import decoded_lines
from qkv.data.readers.named import kind_by_name, uncompressed_name
from qkv.data.readers.table import NAMES, TableCorpus, looks_like_header

PARTS = {"dev": ("dev", "valid", "validation", "val"), "test": ("test",)}
TRAIN = re.compile(r"(?<![A-Za-z])train(?![A-Za-z])")
SOURCES = ("src", "source", "input", "question", "command", "commands", "word", "english", "en")
TARGETS = ("tgt", "target", "output", "answer", "actions", "action", "pronunciation", "translation")
LOOKED_AT = 100
"""Rows of a table by which its columns are judged."""


@dataclass(frozen=True)
class Found:
    """Corpora as a recipe names them, relative to `root`."""

    name: str
    root: Path
    train: dict[str, Any]
    dev: dict[str, Any] | None
    test: dict[str, Any] | None


def discover(data: Sequence[Path]) -> Found:
    """From one table, two text files, or a folder with either."""
    for path in data:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
    if len(data) == 2 and all(path.is_file() for path in data):
        return _of_texts(data[0], data[1])
    if len(data) != 1:
        raise UsageError("give one file (tsv, csv, jsonl or parquet), one folder, or two text files: source and target")
    return _of_folder(data[0]) if data[0].is_dir() else _of_table(data[0])


def _of_table(path: Path) -> Found:
    describe = _describer(path)
    corpus = describe(path)
    parts = {
        part: {**corpus, "path": other.name} for part in PARTS for other in _siblings(path, part) if other.is_file()
    }
    name = TRAIN.sub("", _stem(path)).strip("._- ") or path.resolve().parent.name
    return Found(name, path.parent, corpus, parts.get("dev"), parts.get("test"))


def _of_texts(src: Path, tgt: Path) -> Found:
    root = src.parent
    if tgt.parent != root:
        raise UsageError(f"{src} and {tgt}: put both files into one folder")
    parts = {}
    for part in PARTS:
        # Only a file named train has siblings; one of the sides may have none.
        for both in zip(_siblings(src, part), _siblings(tgt, part), strict=False):
            if all(path.is_file() for path in both):
                parts[part] = {"kind": "text", "src": both[0].name, "tgt": both[1].name}
    name = TRAIN.sub("", _stem(src)).strip("._- ") or root.resolve().name
    corpus = {"kind": "text", "src": src.name, "tgt": tgt.name}
    return Found(name, root, corpus, parts.get("dev"), parts.get("test"))


def _of_folder(folder: Path) -> Found:
    """The file that is named train, or the only table; or the two text files that are named train."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    tables = [path for path in files if kind_by_name(path) is not None]
    named = [path for path in files if TRAIN.search(path.name)]
    chosen = [path for path in tables if path in named] or ([] if named else tables)
    if len(chosen) == 1:
        return _of_table(chosen[0])
    if not chosen and len(named) == 2:
        return _of_texts(*_in_order(named, folder))
    there = ", ".join(path.name for path in (chosen or named or files)[:10]) or "nothing"
    raise UsageError(f"{folder}: has no single file of training pairs ({there}); name the file, or the two text files")


def _in_order(files: list[Path], folder: Path) -> list[Path]:
    """Source and target, by names such as train.src, or by the order of the languages in the folder's name."""
    words = re.split(r"\W+|_", folder.resolve().name)

    def rank(path: Path) -> tuple[int, int]:
        language = _suffix(path).removeprefix(".")
        known = 0 if language in SOURCES else 2 if language in TARGETS else 1
        return (words.index(language), 0) if language in words else (len(words), known)

    return sorted(files, key=rank)


def _stem(path: Path) -> str:
    return path.name.split(".")[0]


def _suffix(path: Path) -> str:
    """`.tsv` of `train.tsv.gz`."""
    return Path(uncompressed_name(path)).suffix.lower()


def _siblings(path: Path, part: str) -> list[Path]:
    """Where the dev or test file beside a training file would be."""
    if not TRAIN.search(path.name):
        return []
    return [path.with_name(TRAIN.sub(name, path.name, count=1)) for name in PARTS[part]]


def _describer(path: Path) -> Callable[[Path], dict[str, Any]]:
    kinds = {"tsv": _tsv, "csv": _csv, "jsonl": _jsonl, "parquet": _parquet}
    kind = kind_by_name(path)
    if kind is None:
        _, first = _first_line(path)
        kind = "jsonl" if first.startswith("{") else "tsv" if "\t" in first else None
    if kind not in kinds:
        raise UsageError(f"{path}: is no table (tsv, csv, jsonl, parquet); give the file of the targets behind it")
    return kinds[kind]


def _first_line(path: Path) -> tuple[int, str]:
    """The first line that is not blank, and its number."""
    for number, line in decoded_lines(path, "replace", ReadCounts()):
        if line is not None and line.strip():
            return number, line
    raise _empty(path)


def _first_rows(corpus: TableCorpus) -> list[list[str]]:
    """As the reader of training sees them; blank rows are left out."""
    every = (fields for _, fields in corpus.rows(corpus.path, "replace", ReadCounts()))
    filled = (fields for fields in every if fields and any(field.strip() for field in fields))
    rows = list(islice(filled, LOOKED_AT))
    if not rows:
        raise _empty(corpus.path)
    return rows


def _empty(path: Path) -> DataError:
    return DataError(f"{path}: is empty; give a file with pairs")


def _tsv(path: Path) -> dict[str, Any]:
    rows = _first_rows(TsvCorpus(path=path))
    src, tgt = _text_columns(rows, path)
    columns = {} if (src, tgt) == (0, 1) else {"src_column": src, "tgt_column": tgt}
    header = {"header": True} if _headed(rows, src, tgt) else {}
    return {"kind": "tsv", "path": path.name, **columns, **header}


def _csv(path: Path) -> dict[str, Any]:
    delimiter = max(",;\t|", key=_first_line(path)[1].count)
    rows = _first_rows(CsvCorpus(path=path, delimiter=delimiter))
    src, tgt = _text_columns(rows, path)
    other = {} if delimiter == "," else {"delimiter": delimiter}
    if _headed(rows, src, tgt):
        return {"kind": "csv", "path": path.name, "src": rows[0][src].strip(), "tgt": rows[0][tgt].strip(), **other}
    return {"kind": "csv", "path": path.name, "header": False, "src": src, "tgt": tgt, **other}


def _headed(rows: list[list[str]], src: int, tgt: int) -> bool:
    pairs = [(row[src], row[tgt]) for row in rows if max(src, tgt) < len(row)]
    return looks_like_header(pairs[0], pairs[1:])


def _text_columns(rows: list[list[str]], path: Path) -> tuple[int, int]:
    """By their names in a first row, or else the first two columns that do not hold numbers."""
    width = min(map(len, rows))
    if width < 2:
        raise DataError(f"{path}: has a line with a single column; separate source and target by a tab or a comma")
    below = rows[1:] or rows
    numbers = [n for n in range(width) if all(re.fullmatch(r"[\d.,:-]*", row[n].strip()) for row in below)]
    texts = [n for n in range(width) if width == 2 or n not in numbers]
    if len(texts) < 2:
        raise DataError(f"{path}: has fewer than two columns of text; give a table with source and target")
    names = {name.strip().lower(): n for n, name in enumerate(rows[0][:width]) if n in texts}
    src, tgt = _by_name(list(names))
    return (names[src], names[tgt]) if {src, tgt} <= names.keys() else (texts[0], texts[1])


def _by_name(names: list[str]) -> tuple[str, str]:
    """The most likely source and target among names."""
    known = [name for name in names if name in SOURCES or name in TARGETS or name in NAMES]
    src = next((name for name in known if name in SOURCES), None)
    tgt = next((name for name in known if name in TARGETS and name != src), None)
    rest = [name for name in [*known, *names] if name not in (src, tgt)]
    src = src or (rest.pop(0) if rest else "")
    rest = [name for name in rest if name != src]
    return src, tgt or (rest[0] if rest else "")


def _jsonl(path: Path) -> dict[str, Any]:
    number, line = _first_line(path)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}:{number}: is not JSON ({error}); write one JSON object a line") from error
    texts = [key for key, value in record.items() if isinstance(value, str)] if isinstance(record, dict) else []
    return {"kind": "jsonl", "path": path.name, **_keys(texts, path)}


def _parquet(path: Path) -> dict[str, Any]:
    from qkv.data.readers.parquet import string_columns

    return {"kind": "parquet", "path": path.name, **_keys(string_columns(path), path)}


def _keys(texts: list[str], path: Path) -> dict[str, Any]:
    if len(texts) < 2:
        raise DataError(f"{path}: has fewer than two columns of text; give a table with source and target")
    lower = {text.lower(): text for text in texts}
    src, tgt = _by_name(list(lower))
    return {"src": lower[src], "tgt": lower[tgt]}
