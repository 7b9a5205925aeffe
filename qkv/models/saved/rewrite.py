"""A sealed folder with something in it changed: a new one in its place, or beside it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from qkv.core.files import new_folder, verify_folder

OF_THE_FOLDER = ("format", "files", "seal")
"""What a manifest says of the folder that it seals; all else is about the content."""


@contextmanager
def changed_copy(folder: Path, final: Path, keep: Callable[[str], bool] = lambda name: True) -> Iterator[Path]:
    """Give a copy of the files of `folder`, or of those that `keep` wants by name, to be changed; on leaving, seal it
    and put it in the place of `final`, which may be `folder` itself.
    """
    manifest = verify_folder(folder)
    with new_folder(final, {key: value for key, value in manifest.items() if key not in OF_THE_FOLDER}) as temporary:
        for name in filter(keep, manifest["files"]):
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, temporary / name)
        yield temporary
