"""Store a drafter in the folder of its model."""

import shutil
from pathlib import Path

from qkv.core.errors import UsageError
from qkv.core.files import verify_folder
from qkv.core.outputs import refuse_kept
from qkv.models.asked import require_seq2seq
from qkv.models.saved.folder import load_model
from qkv.models.saved.locate import changed_copy, locate_model
from qkv.search.speculative.drafters.other_model import ModelDrafterConfig
from qkv.search.speculative.drafting import DRAFTER, require_autoregressive


def attach_drafter(model: Path, drafter: Path, out: Path | None = None) -> Path:
    """Put the model in `drafter` into the folder of `model`, or into a copy of it in `out`; the folder written.

    Whatever was attached before is replaced. Raises UsageError if the two are incompatible.
    """
    folder, other = locate_model(model), locate_model(drafter)
    if verify_folder(folder).get("what") != "model":
        raise UsageError(f"{folder}: holds no model that a drafter could be attached to; give the one it was made from")
    saved = load_model(folder)
    require_seq2seq(saved.config.model, folder)
    require_autoregressive(saved.config)
    ModelDrafterConfig(path=other).build(saved)
    final = out or folder
    if final.exists() and final != folder:
        raise UsageError(f"{final}: exists already; choose another folder")
    if out is not None and out != folder:
        refuse_kept("--out", out)
    with changed_copy(folder, final, lambda name: Path(name).parts[0] != DRAFTER) as temporary:
        shutil.copytree(other, temporary / DRAFTER, ignore=lambda at, names: [DRAFTER] if DRAFTER in names else [])
    return final
