"""Folders that are complete or absent: written under a temporary name, verified by a manifest, renamed in one step.

The manifest holds the size and SHA-256 of every file, and one of itself, and is written last, so a folder
without one, or with one that does not match, was interrupted or damaged and is never used.
"""

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.reading import STRICT, Count, read_record
from qkv.core.temporary import old_name, temporary_file, temporary_folder

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
CHECKSUM_KEYS = ("checksum", "seal")
"""The key of a manifest's own checksum, now and in earlier versions."""
BLOCK = 1 << 20


LONGEST_NAME = 255
"""Bytes of the name of a file in a manifest, as file systems have it."""


def _inside(name: str) -> str:
    """The name of a file in a folder or below it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise ValueError("names a file outside its folder")
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError("names a file that no disk can hold")
    return name


@with_config(STRICT)
class FileEntry(TypedDict):
    """The entry of a file in a manifest."""

    size: Count
    sha256: str


@with_config(ConfigDict(strict=True, extra="allow"))
class Manifest(TypedDict):
    """The contents of a manifest, apart from what each kind of folder adds."""

    format: Count
    checksum: Annotated[str, Field(validation_alias=AliasChoices(*CHECKSUM_KEYS))]
    """SHA-256 of the rest of the manifest."""
    files: dict[Annotated[str, AfterValidator(_inside)], FileEntry]
    what: NotRequired[str | None]
    """The kind of the folder."""
    quantization: NotRequired[str | None]
    """Of an export."""
    languages: NotRequired[tuple[str, str] | None]
    """The codes of a model's source and target languages."""


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def crc32_of(path: Path, size: int) -> int:
    """Of the first `size` bytes of a file, or of all if there are fewer."""
    check = 0
    with path.open("rb") as file:
        while size and (block := file.read(min(size, BLOCK))):
            check = zlib.crc32(block, check)
            size -= len(block)
    return check


def sync(path: Path) -> None:
    """Flush a file, or a folder's listing, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content`, or leave it as it was.

    A symbolic link stays, and the file that it leads to is replaced.
    """
    data = content.encode() if isinstance(content, str) else content
    target = end_of_link(path)
    if target.exists() and not target.is_file():
        raise UsageError(f"{path}: is not a file; choose another name for the output")
    try:
        with temporary_file(target) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, target)
        sync(target.parent)
    except OSError as error:
        raise QkvError(f"{path}: cannot be written ({error.strerror}); nothing there was changed") from error


def end_of_link(path: Path) -> Path:
    """The final target of a symbolic link, or the path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def new_folder(final: Path, about: dict[str, Any]) -> Iterator[Path]:
    """Give a temporary folder to fill; on leaving, write its manifest and rename it to `final`.

    `about` is stored in the manifest. An exception inside removes the temporary folder. A folder already at `final`
    is replaced only after the new one is complete, and only if this function made it or it is empty; what others put
    into it is kept. A symbolic link stays, and the folder it leads to is replaced.
    """
    target = end_of_link(final)
    if os.path.lexists(target) and not _is_replaceable(target):
        raise UsageError(f"{final}: exists already and was not made by qkv; choose another folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(target) as temporary:
            yield temporary
            write_manifest(temporary, about)
            _swap_in(temporary, target)
    except OSError as error:
        raise QkvError(f"{final}: cannot be written ({error.strerror}); nothing there was changed") from error


def _is_replaceable(folder: Path) -> bool:
    """Whether the folder is empty or has a manifest of ours, even a damaged one; False if it cannot be read."""
    if not folder.is_dir():
        return False
    try:
        content = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        return not any(folder.iterdir())
    except OSError:
        return False
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        return any(f'"{key}"'.encode() in content for key in CHECKSUM_KEYS)
    return isinstance(manifest, dict) and any(key in manifest for key in CHECKSUM_KEYS)


def write_manifest(folder: Path, about: dict[str, Any]) -> None:
    """Write the manifest of a filled folder and sync everything to disk."""
    files = {}
    # safetensors writes files that only their owner can read; give them the user's normal permissions.
    umask = os.umask(0)
    os.umask(umask)
    permissions = 0o666 & ~umask
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        path.chmod(permissions)
        sync(path)
        files[path.relative_to(folder).as_posix()] = {"size": path.stat().st_size, "sha256": sha256_of(path)}
    manifest = {"format": FORMAT_VERSION, **about, "files": files}
    manifest["checksum"] = manifest_checksum(manifest)
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    for path in [p for p in folder.rglob("*") if p.is_dir()] + [folder]:
        sync(path)


def manifest_checksum(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of the manifest without its own checksum."""
    content = {key: value for key, value in manifest.items() if key not in CHECKSUM_KEYS}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _swap_in(temporary: Path, final: Path) -> None:
    """Rename `temporary` to `final`; an existing `final` is moved aside first and removed afterwards."""
    old = old_name(temporary)
    if final.exists():
        _copy_what_others_added(final, temporary)
        final.rename(old)
    try:
        temporary.rename(final)
    except OSError:
        # There may have been none; if it cannot be restored now, `remove_leftovers` does so later.
        with suppress(OSError):
            old.rename(final)
        raise
    sync(final.parent)
    # The new one is in place; what remains of the old one is a leftover.
    shutil.rmtree(old, ignore_errors=True)


def _copy_what_others_added(folder: Path, new: Path) -> None:
    """Files that the manifest of `folder` does not name, such as a .git or notes; they have no checksum."""
    try:
        ours = {Path(name) for name in read_manifest(folder)["files"]} | {Path(MANIFEST)}
    except CorruptFolder:
        ours = {Path(MANIFEST)}
    ours |= {parent for path in ours for parent in path.parents}
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if place in ours or os.path.lexists(new / place):
            continue
        if path.is_dir() and not path.is_symlink():
            (new / place).mkdir(parents=True)
        else:
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, new / place, follow_symlinks=False)


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


def set_aside(folder: Path) -> None:
    """Rename a damaged folder to damaged-NAME, in the place of an earlier one: it may be the only copy."""
    aside = folder.with_name(f"damaged-{folder.name}")
    if os.path.lexists(aside):
        remove_folder(aside)
    folder.rename(aside)


def remove_folder(folder: Path) -> None:
    """Of a link only the link, as its owner may have put the folder elsewhere on purpose."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder)


def refuse_pickles(folder: Path) -> None:
    """Refuse a folder that torch.distributed.checkpoint wrote: its metadata are a pickle, which runs code when read."""
    if (folder / ".metadata").is_file() or any(folder.glob("*.distcp")):
        raise CorruptFolder(
            f"{folder}: is a checkpoint of torch.distributed.checkpoint, which can run code when it is read, so qkv "
            "never reads one; give a model that is stored as safetensors"
        )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of `folder`; its files are not looked at."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise CorruptFolder(f"{folder}: no such folder")
    refuse_pickles(folder)
    if not path.is_file():
        raise CorruptFolder(f"{folder}: has no {MANIFEST}; it was not written completely, or not by qkv")
    manifest = read_record(path, Manifest, "a manifest")
    if manifest["format"] > FORMAT_VERSION:
        version = manifest["format"]
        raise CorruptFolder(f"{path}: has format {version}, this qkv reads up to {FORMAT_VERSION}; update qkv")
    if manifest["checksum"] != manifest_checksum(manifest):
        raise CorruptFolder(f"{path}: has changed since it was written; use another copy of the folder")
    return manifest
