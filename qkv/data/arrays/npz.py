"""The arrays of a `.npz` archive, in chunks of rows, so that an archive larger than memory can be read."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from qkv.core.errors import DataError
from qkv.core.reading import open_file

Array = npt.NDArray[Any]


class NpzArray(NamedTuple):
    """An array of an archive before its content is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def npz_array(path: Path, name: str) -> NpzArray:
    """Shape and type of the array `name`; raises DataError, also where there is no such array."""
    with _member(path, name) as file:
        shape, _, dtype = _header(file)
    return NpzArray(shape, dtype)


def npz_names(path: Path) -> list[str]:
    """The names of the arrays."""
    with _opened(path) as archive:
        return _names(archive)


def npz_rows(path: Path, name: str, rows: int = 1024) -> Iterator[Array]:
    """The array `name`, at most `rows` rows at a time."""
    with _member(path, name) as file:
        shape, by_columns, dtype = _header(file)
        if not shape:
            raise DataError(f"{path}: the array {name!r} is a single value; write an array with a row for each example")
        size = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        if by_columns:
            yield np.frombuffer(_exactly(file, size * shape[0]), dtype).reshape(shape, order="F")
            return
        for first in range(0, shape[0], rows):
            count = min(rows, shape[0] - first)
            yield np.frombuffer(_exactly(file, size * count), dtype).reshape(count, *shape[1:])


def npz_whole(path: Path, name: str) -> Array:
    """The array `name`."""
    return np.concatenate(list(npz_rows(path, name)) or [np.zeros(0)])


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [member.removesuffix(".npy") for member in archive.namelist()]


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise DataError(f"{path}: is not a whole .npz file ({error}); write it with numpy.savez") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


@contextmanager
def _member(path: Path, name: str) -> Iterator[IO[bytes]]:
    with _opened(path) as archive:
        names = _names(archive)
        if name not in names:
            raise DataError(f"{path}: has no array {name!r}; its arrays are {', '.join(map(repr, names)) or 'none'}")
        with archive.open(archive.namelist()[names.index(name)]) as file:
            yield file


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("an array holds Python objects")
    return shape, by_columns, dtype


def _exactly(file: IO[bytes], size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise EOFError("an array ends too early")
    return content
