"""The alignments of prepared pairs: a Pharaoh line for each in `alignments.txt`, and where it begins in an index."""

import os
import struct
import weakref
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.core.errors import CorruptFolder
from qkv.data.alignments.pharaoh import Alignment, format_links, parse_alignment

TEXT_FILE, INDEX_FILE = "alignments.txt", "alignments_index.bin"
PLACE = struct.Struct("<QI")
"""Where a line begins, and how many bytes it has."""


class AlignmentWriter:
    """Appends the alignments of pairs to the files of a store; use it as a context."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self._text, self._index = (
            self._stack.enter_context((folder / name).open("wb")) for name in (TEXT_FILE, INDEX_FILE)
        )
        self._position = 0

    def __enter__(self) -> "AlignmentWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, alignments: Iterable[Alignment | None]) -> None:
        """One for each pair; None: a pair of a corpus without alignments."""
        for alignment in alignments:
            line = format_links(alignment.sure if alignment else ()).encode() + b"\n"
            self._text.write(line)
            self._index.write(PLACE.pack(self._position, len(line)))
            self._position += len(line)


class StoredAlignments:
    """Reads the alignments of pairs by their numbers. Thread-safe: it moves no file position."""

    def __init__(self, folder: Path, pairs: int) -> None:
        self._folder = folder
        self._text, self._index = (os.open(folder / name, os.O_RDONLY) for name in (TEXT_FILE, INDEX_FILE))
        weakref.finalize(self, _close, (self._text, self._index))
        if os.fstat(self._index).st_size != pairs * PLACE.size:
            raise CorruptFolder(f"{folder}: its files are of different data; delete it and prepare the data again")

    @classmethod
    def of(cls, folder: Path, pairs: int) -> "StoredAlignments | None":
        """Those of a store of so many pairs; None if it has none."""
        try:
            return cls(folder, pairs) if (folder / TEXT_FILE).exists() else None
        except OSError as error:
            raise CorruptFolder(f"{folder}: cannot be read ({error.strerror}); prepare the data again") from error

    def read(self, indices: npt.NDArray[np.integer[Any]] | Sequence[int]) -> list[Alignment]:
        """The alignments of the pairs `indices`, in that order."""
        return [self._one(index) for index in np.asarray(indices).tolist()]

    def _one(self, index: int) -> Alignment:
        start, size = PLACE.unpack(os.pread(self._index, PLACE.size, index * PLACE.size))
        line = os.pread(self._text, size, start).decode("ascii", "replace")
        return parse_alignment(line, f"{self._folder / TEXT_FILE}:{index + 1}")


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
