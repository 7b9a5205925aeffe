"""`qkv import`: a folder of Hugging Face to a model folder."""

from pathlib import Path

import qkv.export.importing  # noqa: F401  # its modules register themselves
from qkv.core.errors import UsageError
from qkv.core.outputs import refuse_kept
from qkv.export.importing.base import HuggingFaceFolder, importers
from qkv.models.saved.folder import SavedConfig, SavedModel, save_model


def import_model(folder: Path, out: Path) -> SavedModel:
    """Write the model in `folder`, as `save_pretrained` wrote it, to the new model folder `out`."""
    if out.exists():
        raise UsageError(f"{out}: exists already; choose another folder")
    refuse_kept("--out", out)
    found = HuggingFaceFolder.read(folder)
    kind = str(found.config.get("model_type"))
    if kind not in importers:
        raise UsageError(f"{folder}: has model_type {kind}; what can be imported is {', '.join(importers.names())}")
    imported = importers[kind](found)
    config = SavedConfig(model=imported.config, text=imported.text, **imported.facts)
    saved = SavedModel(imported.model, imported.tokenizers, config)
    save_model(out, saved, {"imported": kind})
    return saved
