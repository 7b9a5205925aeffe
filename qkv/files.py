"""Folders that are whole or not there: written aside, checked by a manifest, renamed in one step.

The manifest holds the size and SHA-256 of every file, and one of itself, and is written last, so a folder
without one, or with one that does not match, was interrupted or damaged and is never used.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, ConfigDict, with_config
from typing_extensions import TypedDict

from qkv.errors import CorruptFolder, QkvError
from qkv.reading import STRICT, Count, read_record

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
TEMPORARY_SUFFIX = ".tmp"
OLD_SUFFIX = ".old.tmp"


def _inside(name: str) -> str:
    """The name of a file in a folder or below it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise ValueError("names a file outside its folder")
    return name


@with_config(STRICT)
class FileEntry(TypedDict):
    """What a manifest says of a file."""

    size: Count
    sha256: str


@with_config(ConfigDict(strict=True, extra="allow"))
class Manifest(TypedDict):
    """What a manifest holds, beside what each kind of folder says about itself."""

    format: Count
    seal: str
    files: dict[Annotated[str, AfterValidator(_inside)], FileEntry]
    what: NotRequired[str | None]
    """The kind of the folder."""
    quantization: NotRequired[str | None]
    """Of an export."""
    score: NotRequired[float | None]
    """Of a checkpoint; NaN where the validation gave none."""


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make a file or a folder's listing survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content`, or leave it as it was."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    data = content.encode() if isinstance(content, str) else content
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        # The error that is raised is the one to tell, not that its remains could not be removed.
        with suppress(OSError):
            temporary.unlink()
        raise QkvError(f"{path}: cannot be written ({error.strerror}); nothing there was changed") from error


@contextmanager
def new_folder(final: Path, about: dict[str, Any]) -> Iterator[Path]:
    """Give a temporary folder to fill; on leaving, seal it with a manifest and rename it to `final`.

    `about` is stored in the manifest. An exception inside removes the temporary folder. A folder
    already at `final` is replaced only after the new one is complete.
    """
    temporary = final.with_name(final.name + TEMPORARY_SUFFIX)
    try:
        if temporary.exists():
            shutil.rmtree(temporary)
        temporary.mkdir(parents=True)
        yield temporary
        seal(temporary, about)
        _swap_in(temporary, final)
    except OSError as error:
        raise QkvError(f"{final}: cannot be written ({error.strerror}); nothing there was changed") from error
    finally:
        # Gone already if all went well. Otherwise the error is the one to tell, not that its remains stayed.
        shutil.rmtree(temporary, ignore_errors=True)


def seal(folder: Path, about: dict[str, Any]) -> None:
    """Write the manifest of a filled folder and sync everything to disk."""
    files = {}
    # safetensors writes files that only their owner can read: these are like any other file of the user's.
    umask = os.umask(0)
    os.umask(umask)
    permissions = 0o666 & ~umask
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        path.chmod(permissions)
        sync(path)
        files[path.relative_to(folder).as_posix()] = {"size": path.stat().st_size, "sha256": sha256_of(path)}
    manifest = {"format": FORMAT_VERSION, **about, "files": files}
    manifest["seal"] = _seal_of(manifest)
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    for path in [p for p in folder.rglob("*") if p.is_dir()] + [folder]:
        sync(path)


def _seal_of(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of the manifest without its seal."""
    content = {key: value for key, value in manifest.items() if key != "seal"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _swap_in(temporary: Path, final: Path) -> None:
    """Rename `temporary` to `final`; an older `final` steps aside first and is removed afterwards.

    Without a `final`, an `old` that an interrupted swap left is the only copy: it stays until the new one is there.
    """
    old = final.with_name(final.name + OLD_SUFFIX)
    if final.exists():
        if old.exists():
            shutil.rmtree(old)
        final.rename(old)
    try:
        temporary.rename(final)
    except OSError:
        # There may have been none; and if it cannot be put back now, `remove_leftovers` does it at the next start.
        with suppress(OSError):
            old.rename(final)
        raise
    sync(final.parent)
    # The new one is in place: what is left of the old one is removed at the next start.
    shutil.rmtree(old, ignore_errors=True)


def verify_folder(folder: Path) -> Manifest:
    """The manifest of `folder`, after checking every file against it; raises CorruptFolder."""
    manifest = read_manifest(folder)
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise CorruptFolder(f"{path}: is missing; the folder is incomplete, use another copy")
        try:
            unchanged = path.stat().st_size == expected["size"] and sha256_of(path) == expected["sha256"]
        except OSError as error:
            raise CorruptFolder(f"{path}: cannot be read ({error.strerror}); use another copy of the folder") from error
        if not unchanged:
            raise CorruptFolder(f"{path}: has changed since it was written; use another copy of the folder")
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """The manifest of `folder`; its files are not looked at."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise CorruptFolder(f"{folder}: no such folder")
    if not path.is_file():
        raise CorruptFolder(f"{folder}: has no {MANIFEST}; it was not written completely, or not by qkv")
    manifest = read_record(path, Manifest, "a manifest")
    if manifest["format"] > FORMAT_VERSION:
        version = manifest["format"]
        raise CorruptFolder(f"{path}: has format {version}, this qkv reads up to {FORMAT_VERSION}; update qkv")
    if manifest["seal"] != _seal_of(manifest):
        raise CorruptFolder(f"{path}: has changed since it was written; use another copy of the folder")
    return manifest


def remove_leftovers(parent: Path, *names: str) -> None:
    """Remove what interrupted writes of `names` (patterns) left in `parent`; a folder caught mid-swap is put back."""
    for name in names:
        for path in sorted(parent.glob(name + OLD_SUFFIX)):
            final = path.with_name(path.name.removesuffix(OLD_SUFFIX))
            if not final.exists():
                path.rename(final)
        for path in sorted({*parent.glob(name + TEMPORARY_SUFFIX), *parent.glob(name + OLD_SUFFIX)}):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
