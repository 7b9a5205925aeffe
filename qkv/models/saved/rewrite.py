"""Change files of a folder with a manifest: a new folder in its place, or beside it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from qkv.core.files import new_folder, verify_folder

OF_THE_FOLDER = ("format", "files", "checksum")
"""Keys of a manifest about the folder itself; the others are about its content."""


@contextmanager
def changed_copy(folder: Path, final: Path, keep: Callable[[str], bool] = lambda name: True) -> Iterator[Path]:
    """Copy the files of `folder` whose names pass `keep` to a temporary folder, to be changed by the caller.

    On exit, its manifest is written and it replaces `final`, which may be `folder` itself.
    """
    manifest = verify_folder(folder)
    with new_folder(final, {key: value for key, value in manifest.items() if key not in OF_THE_FOLDER}) as temporary:
        for name in filter(keep, manifest["files"]):
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, temporary / name)
        yield temporary
