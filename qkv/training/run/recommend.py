"""Settings of the search that were chosen for a model, stored with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qkv.config import dump_config, load_config
from qkv.core.errors import QkvError
from qkv.core.files import read_manifest
from qkv.models.saved.folder import CONFIG, SavedConfig
from qkv.models.saved.locate import changed_copy
from qkv.training.run.folder import kept_free


def recommend(folder: Path, search: Mapping[str, Any], checksum: str) -> None:
    """Store the settings with the model in `folder`, which is complete at all times.

    `checksum` is that of the model they were chosen for; a newer model in its place is left alone.
    """
    # A training that saved a better model between the check and the swap would lose it.
    with kept_free(folder.parent):
        if read_manifest(folder)["checksum"] != checksum:
            raise QkvError(f"{folder}: the model was replaced while it was tuned; nothing was stored, tune it again")
        config = load_config(SavedConfig, folder / CONFIG).model_copy(update={"search": dict(search)})
        with changed_copy(folder, folder) as copy:
            (copy / CONFIG).write_text(dump_config(config), encoding="utf-8")
