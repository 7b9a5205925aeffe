"""Pairs as two files, line by line in parallel, as the corpus kind `text` reads them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from qkv.core.errors import QkvError
from qkv.data.store import PairStore
from qkv.data.texts import paired, read_texts


def one_line(text: str) -> str:
    """Replace line ends and tabs by spaces."""
    return text.replace("\n", " ").replace("\r", " ").replace("\t", " ")


def read_aligned(src: Path, tgt: Path | None) -> Iterator[tuple[str, ...]]:
    """The texts of each line: source and target, or the source alone."""
    if tgt is None:
        return ((text,) for text in read_texts(src))
    return paired(read_texts(src), read_texts(tgt), (src, tgt))


def stored_pairs(store: PairStore) -> Iterator[tuple[str, ...]]:
    """The pairs of a store, in order."""
    return (pair for chunk in store.chunks() for pair in chunk)


def write_aligned(rows: Iterable[tuple[str, ...]], paths: tuple[Path, ...]) -> int:
    """A file for each column of `rows`, synced to disk; how many lines each has."""
    count = 0
    try:
        files = [path.open("w", encoding="utf-8", newline="\n") for path in paths]
        try:
            for row in rows:
                for file, text in zip(files, row, strict=True):
                    file.write(one_line(text) + "\n")
                count += 1
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        finally:
            for file in files:
                file.close()
    except OSError as error:
        raise QkvError(f"{paths[0].parent}: cannot be written ({error.strerror})") from error
    return count
