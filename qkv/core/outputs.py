"""Checks what a command may write to: never its own input, a file of a saved model or run, or someone else's folder.

Folders that qkv writes to repeatedly, such as a run, contain a marker, qkv.json, which says what they are and which
names in them belong to qkv.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Literal

from pydantic import with_config
from typing_extensions import TypedDict

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import MANIFEST, end_of_link, read_manifest, write_atomic
from qkv.core.reading import STRICT, read_record
from qkv.core.temporary import is_unique_name

MARKER = "qkv.json"


@with_config(STRICT)
class Marker(TypedDict):
    """The contents of qkv.json."""

    made_by: Literal["qkv"]
    what: str
    """The kind of the folder."""
    names: list[str]
    """The files and folders in it that belong to qkv."""


def require_writable(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Reject, before any work is done, output files that cannot be written or would destroy something.

    The keys of `outputs` are the options that name them.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    read = [path for path in inputs if path is not None]
    for option, path in given.items():
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: is not a file; choose another name for the output")
        for other in read:
            if _is_same(path, other):
                raise UsageError(f"{option} {path}: is also an input; choose another name for the output")
        for another, other in given.items():
            if another != option and _is_same(path, other):
                raise UsageError(f"{option} and {another}: both name {path}; choose another name for one of them")
        refuse_kept(option, path)
        _try_to_write(path)


def refuse_inside(folder: Path, inputs: Iterable[Path | None]) -> None:
    """Inputs must not lie in a folder that the command fills."""
    for path in inputs:
        if path is not None and path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(
                f"{path}: is an input, but lies in {folder}, which is to be written; choose another folder"
            )


def _is_same(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return path.samefile(other)
    return os.path.realpath(path) == os.path.realpath(other)


def refuse_kept(option: str, path: Path) -> None:
    """Reject a file that the manifest of a saved folder, or the marker of a run, lists as qkv's."""
    real = Path(os.path.realpath(path))
    for folder in real.parents:
        place = real.relative_to(folder)
        marker = read_marker(folder)
        if place.as_posix() in _in_manifest(folder) or (marker and place.parts[0] in marker["names"]):
            raise UsageError(f"{option} {path}: belongs to what qkv keeps in {folder}; choose another name")


def _in_manifest(folder: Path) -> set[str]:
    try:
        return {MANIFEST, *read_manifest(folder)["files"]}
    except CorruptFolder:
        return set()


def _try_to_write(path: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=end_of_link(path).parent):
            pass
    except OSError as error:
        raise QkvError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file that the user has named by --out."""
    require_writable({"--out": path})
    write_atomic(path, content)


def free_name(stem: str, suffix: str) -> Path:
    """The first of STEM.svg, STEM-2.svg, ... that does not exist in the working directory."""
    names = (Path(f"{stem}-{number}{suffix}" if number > 1 else f"{stem}{suffix}") for number in count(1))
    return next(name for name in names if not name.exists())


def claim_folder(folder: Path, what: str, names: Iterable[str], advice: str) -> None:
    """Create `folder`, or use an empty one, and mark it; a folder with the same marker may be used again.

    Raises UsageError for any other folder that is not empty: qkv only touches what it created.
    """
    if folder.is_dir():
        marker = read_marker(folder)
        if marker and marker["what"] == what:
            return
        if marker:
            raise UsageError(f"{folder}: holds a {marker['what']}; {advice}")
        others = sorted(path.name for path in folder.iterdir() if not is_unique_name(path.name))
        if others:
            raise UsageError(f"{folder}: is not empty and was not made by qkv (it holds {others[0]}); {advice}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QkvError(f"{folder}: cannot be created ({error.strerror}); {advice}") from error
    mark_folder(folder, what, names)


def mark_folder(folder: Path, what: str, names: Iterable[str]) -> None:
    marker = Marker(made_by="qkv", what=what, names=sorted({MARKER, *names}))
    write_atomic(folder / MARKER, json.dumps(marker, indent=2) + "\n")


def read_marker(folder: Path) -> Marker | None:
    """The marker; None if there is none of ours."""
    try:
        return read_record(folder / MARKER, Marker, "a marker")
    except CorruptFolder:
        return None
