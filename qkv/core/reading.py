"""Opens files for reading, and reads JSON files as typed records.

Only regular files are read: a pipe without a writer would block forever, and a device may never end. The contents of a
JSON file are declared as a type; a file that does not match is rejected with one sentence before it is used.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from qkv.core.errors import CorruptFolder
from qkv.core.wording import first_problem

T = TypeVar("T")

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""The config of record types (`pydantic.with_config`): nothing is converted, no key is ignored, numbers are finite."""
Count = Annotated[int, Field(ge=0, le=2**53)]
"""How many of something."""
MAX_JSON = 256 << 20
"""The largest JSON file of a model or run, vocabularies included."""
_KINDS = {
    stat.S_IFIFO: "it is a pipe; write its content to a file, or give it as standard input",
    stat.S_IFCHR: "it is a device, not a file",
    stat.S_IFBLK: "it is a device, not a file",
    stat.S_IFSOCK: "it is a socket, not a file",
}


def open_file(path: Path) -> BinaryIO:
    """`path` opened for reading in binary; raises OSError, also for anything but a regular file or /dev/null."""
    # Without O_NONBLOCK, opening a pipe waits for a process that writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        kind = stat.S_IFMT(about.st_mode)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
        if kind in _KINDS and about.st_rdev != os.stat(os.devnull).st_rdev:
            raise OSError(errno.EINVAL, _KINDS[kind], str(path))
        os.set_blocking(descriptor, True)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_record(path: Path, shape: type[T], what: str) -> T:
    """The JSON file as a value of `shape`; raises CorruptFolder, where `what` names what the file should be."""
    try:
        with open_file(path) as file:
            raw = file.read(MAX_JSON + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CorruptFolder(f"{path}: cannot be read ({reason}); use another copy of the folder") from error
    if len(raw) > MAX_JSON:
        raise CorruptFolder(f"{path}: is larger than {MAX_JSON >> 20} MiB, so it is not {what}; use another copy")
    return parse_record(raw, shape, path, what)


def parse_record(raw: bytes, shape: type[T], path: Path, what: str) -> T:
    """The same for the content of a file. Numbers are finite and text is valid Unicode, whatever JSON can spell."""
    try:
        value: T = _adapter(shape).validate_json(raw)
    except ValidationError as error:
        raise CorruptFolder(
            f"{path}: is not {what} ({first_problem(error)}); use another copy of the folder"
        ) from error
    return value


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(shape: Any) -> TypeAdapter[Any]:
    if shape not in _adapters:
        _adapters[shape] = TypeAdapter(shape)
    return _adapters[shape]
