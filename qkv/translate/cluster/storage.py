"""Files on this machine, or by a URI such as s3://bucket/folder through the file systems of pyarrow."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from qkv.core.errors import DataError, QkvError, UsageError
from qkv.core.files import write_atomic

WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Location:
    """A file or folder of a file system of pyarrow."""

    filesystem: Any
    path: str
    name: str
    """As the user wrote it, for messages."""

    @property
    def local(self) -> bool:
        return bool(self.filesystem.type_name == "local")

    def below(self, name: str) -> "Location":
        return Location(self.filesystem, f"{self.path}/{name}", f"{self.name.rstrip('/')}/{name}")

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The file for reading, with `seek` and `tell`; raises DataError."""
        try:
            with self.filesystem.open_input_file(self.path) as file:
                yield file
        except FileNotFoundError as error:
            raise DataError(f"{self.name}: no such file") from error
        except OSError as error:
            raise DataError(f"{self.name}: cannot be read ({_why(error)})") from error

    def read(self) -> bytes | None:
        """The whole file; None if there is none."""
        try:
            with self.filesystem.open_input_file(self.path) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise QkvError(f"{self.name}: cannot be read ({_why(error)})") from error

    def write(self, content: bytes) -> None:
        """Write the file under another name and rename it: nobody sees half of it."""
        if self.local:
            write_atomic(Path(self.path), content)
            return
        try:
            with self.filesystem.open_output_stream(f"{self.path}.tmp") as file:
                file.write(content)
            self.filesystem.move(f"{self.path}.tmp", self.path)
        except OSError as error:
            raise QkvError(f"{self.name}: cannot be written ({_why(error)})") from error

    def create_folder(self) -> None:
        try:
            self.filesystem.create_dir(self.path, recursive=True)
        except OSError as error:
            raise QkvError(f"{self.name}: cannot be created ({_why(error)}); choose another folder") from error

    def sizes(self) -> dict[str, int]:
        """The files in the folder and in those below it, by their path from here; empty if there is no folder."""
        from pyarrow.fs import FileSelector, FileType

        try:
            found = self.filesystem.get_file_info(FileSelector(self.path, recursive=True, allow_not_found=True))
        except NotADirectoryError as error:
            raise UsageError(f"{self.name}: is not a folder; choose another name for the output") from error
        except OSError as error:
            raise QkvError(f"{self.name}: cannot be read ({_why(error)})") from error
        return {one.path[len(self.path) + 1 :]: one.size for one in found if one.type == FileType.File}

    def delete(self, name: str) -> None:
        try:
            self.filesystem.delete_file(f"{self.path}/{name}")
        except OSError as error:
            raise QkvError(f"{self.name}/{name}: cannot be removed ({_why(error)})") from error


def location_of(given: str) -> Location:
    """What a path of this machine or a URI names."""
    try:
        from pyarrow import ArrowException, fs
    except ImportError as error:
        raise UsageError("--on ray: pyarrow is not installed; install it with: pip install 'qkv[ray]'") from error
    if "://" not in given:
        return Location(fs.LocalFileSystem(), os.path.abspath(given), given)
    try:
        filesystem, path = fs.FileSystem.from_uri(given)
    except (ArrowException, ValueError, OSError) as error:
        raise UsageError(f"{given}: names no file system that pyarrow knows ({_why(error)})") from error
    return Location(filesystem, path.rstrip("/"), given)


def matching(pattern: str) -> list[Location]:
    """The files that a path, a URI or a pattern with `*` and `?` names, by name; those of a folder."""
    from pyarrow.fs import FileSelector, FileType

    # `?` begins the options of a URI, so there only `*` and `[` are wild.
    given, _, options = pattern.partition("?") if "://" in pattern else (pattern, "", "")
    wild = WILD.search(given)
    start = given.rfind("/", 0, wild.start()) + 1 if wild else len(given)
    top = location_of((given[:start] or ".") + (f"?{options}" if options else ""))
    info = top.filesystem.get_file_info(top.path)
    if not wild and info.type == FileType.File:
        return [Location(top.filesystem, top.path, pattern)]
    if info.type != FileType.Directory:
        raise DataError(f"{pattern}: no such file")
    wanted = f"{top.path.rstrip('/')}/{given[start:] or '*'}"
    found = top.filesystem.get_file_info(FileSelector(top.path, recursive="/" in given[start:]))
    files = [one.path for one in found if one.type == FileType.File and _matches(one.path, wanted)]
    if not files:
        raise DataError(f"{pattern}: no file has such a name")
    return [Location(top.filesystem, path, path) for path in sorted(files)]


def _matches(path: str, pattern: str) -> bool:
    """Part by part: `*` stays within a folder. Hidden files and marks of other programs match no pattern."""
    names, wanted = path.split("/"), pattern.split("/")
    hidden = names[-1].startswith((".", "_")) and not wanted[-1].startswith((".", "_"))
    return not hidden and len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))


def _why(error: BaseException) -> str:
    """pyarrow's messages have the path and the code in several lines."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error).partition("\n")[0].rstrip(".")
