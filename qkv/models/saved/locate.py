"""Which folder is meant when a person names a model."""

from pathlib import Path

from qkv.core.errors import ArgumentError, CorruptFolder
from qkv.core.files import MANIFEST

BEST = "best"


def locate_model(path: Path | str) -> Path:
    """The folder itself if it holds a model, or the best model of the run that it holds."""
    if not isinstance(path, Path | str):
        raise ArgumentError(f"a model: must be a folder (str or Path), not {type(path).__name__}")
    path = Path(path)
    if (path / MANIFEST).is_file():
        return path
    if (path / BEST / MANIFEST).is_file():
        return path / BEST
    if not path.exists():
        raise CorruptFolder(f"{path}: no such folder; give the folder of a model or of a run")
    if (path / "checkpoints").is_dir():
        raise CorruptFolder(
            f"{path}: this run has no best model yet; wait for its first validation, or make one by qkv average"
        )
    raise CorruptFolder(f"{path}: holds no model (no {MANIFEST}); give the folder of a model or of a run")
