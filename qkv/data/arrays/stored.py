"""Prepared arrays on disk: a folder of `.npy` files with a manifest, mapped into memory when it is opened.

Only the rows that a batch takes are read, so a store may be larger than memory.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from qkv.core.errors import CorruptFolder
from qkv.core.files import new_folder, read_manifest
from qkv.core.reading import read_record

ABOUT_FILE = "store.json"
Array = npt.NDArray[Any]
About = TypeVar("About")


@dataclass(frozen=True)
class StoredArrays:
    """The arrays of a folder by name, and what was said about them."""

    folder: Path
    fingerprint: str
    """SHA-256 of the content."""
    arrays: Mapping[str, Array]

    def about(self, shape: type[About]) -> About:
        """What `write_arrays` was told, as a record of this type."""
        return read_record(self.folder / ABOUT_FILE, shape, "the description of prepared data")


def write_arrays(folder: Path, inputs: str, fill: Callable[[Path], Mapping[str, Any]]) -> None:
    """A new folder at `folder`: `fill` writes its `.npy` files and says what is to be known about them.

    `inputs` is a hash of what they were made from (see `is_up_to_date`).
    """
    with new_folder(folder, {"inputs": inputs}) as temporary:
        about = fill(temporary)
        (temporary / ABOUT_FILE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def write_rows(path: Path, row: tuple[int, ...], kind: npt.DTypeLike, chunks: Iterable[Array]) -> int:
    """Write chunks of rows of this shape as one `.npy` file, without holding more than one chunk; returns the rows."""
    rows = 0
    with path.open("wb") as file:
        _write_header(file, (rows, *row), np.dtype(kind))
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, dtype=kind).tobytes())
            rows += len(chunk)
        # numpy leaves room in a header for the number of rows to grow, so that it can be written again.
        file.seek(0)
        _write_header(file, (rows, *row), np.dtype(kind))
    return rows


def _write_header(file: IO[bytes], shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
    npy.write_array_header_1_0(file, {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": shape})


def open_arrays(folder: Path) -> StoredArrays:
    """The folder that `write_arrays` wrote; raises CorruptFolder if something is missing or has another size."""
    files = read_manifest(folder)["files"]
    for name, expected in files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != expected["size"]:
            raise CorruptFolder(f"{path}: is missing or has changed; delete {folder} and prepare the data again")
    try:
        arrays = {
            Path(name).stem: np.load(folder / name, mmap_mode="r", allow_pickle=False)
            for name in files
            if name.endswith(".npy")
        }
    except (OSError, ValueError) as error:
        raise CorruptFolder(f"{folder}: cannot be read ({error}); delete it and prepare the data again") from error
    return StoredArrays(folder, hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest(), arrays)


def inputs_hash(kind: str, described: object, files: Iterable[Path]) -> str:
    """Of everything that determines the content of a store; files count by size and modification time."""
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(json.dumps([kind, described, stats], sort_keys=True).encode()).hexdigest()


def is_up_to_date(folder: Path, inputs: str) -> bool:
    """Whether the folder holds what these inputs give."""
    try:
        open_arrays(folder)
        return read_manifest(folder).get("inputs") == inputs
    except CorruptFolder:
        # Missing or damaged: it is built either way.
        return False
