"""Export a model folder to another format."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import qkv.export.ctranslate2
import qkv.export.huggingface
import qkv.export.onnx  # noqa: F401  # these register themselves
from qkv.core.errors import CorruptFolder, UsageError
from qkv.core.files import MANIFEST, read_manifest
from qkv.core.outputs import refuse_kept
from qkv.core.plugins import load_installed
from qkv.export.base import exporters
from qkv.models.saved.folder import SavedModel, load_model
from qkv.models.saved.locate import locate_model

Check = Callable[[SavedModel, Path], None]
"""Compares a model with its exported folder; raises if they differ."""


def export_model(model: Path, to: str, out: Path, quantization: str | None = None, check: Check | None = None) -> int:
    """Write the model, or the best one of a run, in the format `to`; returns the size in bytes.

    An earlier export in `out` is replaced, anything else there is not. `check` looks at the result; at a quantised one
    in a temporary folder before, so that nothing in `out` changes if it raises.
    """
    load_installed()
    if to not in exporters:
        raise UsageError(f"--to {to}: must be {' or '.join(sorted(exporters))}")
    if out.exists() and not _is_export(out):
        raise UsageError(f"{out}: exists already and is no export; choose another folder")
    refuse_kept("--out", out)
    folder = locate_model(model)
    if _is_export(folder):
        raise UsageError(f"{folder}: is an export itself; give the model that it was made from")
    saved = load_model(folder)
    quantised = quantization not in (None, "float32")
    if check is not None and quantised:
        with tempfile.TemporaryDirectory(prefix="qkv-") as trial:
            exporters[to](saved, Path(trial) / "model", quantization)
            check(saved, Path(trial) / "model")
    exporters[to](saved, out, quantization)
    if check is not None and not quantised:
        check(saved, out)
    return sum(entry["size"] for entry in read_manifest(out)["files"].values())


def _is_export(folder: Path) -> bool:
    try:
        return (folder / MANIFEST).is_file() and read_manifest(folder).get("what") in exporters
    except CorruptFolder:
        # Whatever it is, it is not ours to replace.
        return False
