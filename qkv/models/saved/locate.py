"""Finding a model's folder, and writing a changed copy of it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from qkv.core.errors import ArgumentError, CorruptFolder
from qkv.core.files import MANIFEST, new_folder, refuse_pickles, verify_folder
from qkv.models.pretrained import pretrained_folder, pretrained_names, refuse_to_change

BEST = "best"


def locate_model(path: Path | str) -> Path:
    """The folder itself if it holds a model, or the best model of the run that it holds.

    Where there is no such folder, the name of a model that comes with the package gives its folder.
    """
    if not isinstance(path, Path | str):
        raise ArgumentError(f"a model: must be a folder (str or Path), not {type(path).__name__}")
    path = Path(path)
    if (path / MANIFEST).is_file():
        return path
    if (path / BEST / MANIFEST).is_file():
        return path / BEST
    if not path.exists():
        if (folder := pretrained_folder(str(path))) is not None:
            return folder
        names = ", ".join(pretrained_names())
        raise CorruptFolder(
            f"{path}: no such folder; give the folder of a model or of a run, or a model that comes with qkv ({names})"
        )
    if (path / "checkpoints").is_dir():
        raise CorruptFolder(
            f"{path}: this run has no best model yet; wait for its first validation, or make one with qkv average"
        )
    refuse_pickles(path)
    raise CorruptFolder(f"{path}: holds no model (no {MANIFEST}); give the folder of a model or of a run")


OF_THE_FOLDER = ("format", "files", "checksum")
"""Keys of a manifest about the folder itself; the others are about its content."""


@contextmanager
def changed_copy(folder: Path, final: Path, keep: Callable[[str], bool] = lambda name: True) -> Iterator[Path]:
    """Copy the files of `folder` whose names pass `keep` to a temporary folder, to be changed by the caller.

    On exit, its manifest is written and it replaces `final`, which may be `folder` itself.
    """
    refuse_to_change(final)
    manifest = verify_folder(folder)
    with new_folder(final, {key: value for key, value in manifest.items() if key not in OF_THE_FOLDER}) as temporary:
        for name in filter(keep, manifest["files"]):
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, temporary / name)
        yield temporary
