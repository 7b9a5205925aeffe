"""From a model folder to a folder in another program's format."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from qkv.core.errors import CorruptFolder, UsageError
from qkv.core.files import MANIFEST, read_manifest
from qkv.core.outputs import refuse_kept
from qkv.export.ctranslate2 import WHAT as CTRANSLATE2
from qkv.export.ctranslate2 import export_ctranslate2
from qkv.export.huggingface import WHAT as HUGGINGFACE
from qkv.export.huggingface import export_huggingface
from qkv.export.onnx import WHAT as ONNX
from qkv.export.onnx import export_onnx
from qkv.models.saved.folder import SavedModel, load_model
from qkv.models.saved.locate import locate_model


def _huggingface(saved: SavedModel, folder: Path, quantization: str | None) -> None:
    if quantization is not None:
        raise UsageError(f"quantization {quantization}: only ctranslate2 and onnx have that; leave it out")
    export_huggingface(saved, folder)


FORMATS: dict[str, Callable[[SavedModel, Path, str | None], None]] = {
    CTRANSLATE2: export_ctranslate2,
    HUGGINGFACE: _huggingface,
    ONNX: export_onnx,
}


Check = Callable[[SavedModel, Path], None]
"""Looks at a model and a folder that was exported of it; raises if they are not the same."""


def export_model(model: Path, to: str, out: Path, quantization: str | None = None, check: Check | None = None) -> int:
    """Write the model, or the best one of a run, as the format `to` wants it; how many bytes that took.

    An earlier export in `out` is replaced, anything else there is not. `check` looks at the result; at a quantised one
    in a temporary folder before, so that nothing in `out` changes if it raises.
    """
    if to not in FORMATS:
        raise UsageError(f"--to {to}: must be {' or '.join(FORMATS)}")
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
            FORMATS[to](saved, Path(trial) / "model", quantization)
            check(saved, Path(trial) / "model")
    FORMATS[to](saved, out, quantization)
    if check is not None and not quantised:
        check(saved, out)
    return sum(entry["size"] for entry in read_manifest(out)["files"].values())


def _is_export(folder: Path) -> bool:
    try:
        return (folder / MANIFEST).is_file() and read_manifest(folder).get("what") in FORMATS
    except CorruptFolder:
        # Whatever it is, it is not ours to replace.
        return False
