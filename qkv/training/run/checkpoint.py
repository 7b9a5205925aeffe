"""Checkpoints: which of them are there, good, best, kept; what is in one, complete or absent."""

import json
import math
from pathlib import Path

from torch import Tensor

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import remove_folder, set_aside, verify_folder
from qkv.core.reading import read_record
from qkv.core.temporary import unique_name
from qkv.evaluation.metrics.registry import METRICS, REDEFINED
from qkv.models.saved.folder import WEIGHTS, weight_shapes
from qkv.models.saved.weights import read_weights, tensor_names
from qkv.training.recipe import TrainingConfig, ValidationConfig
from qkv.training.run.state import TrainState
from qkv.training.validation import higher_is_better

OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
SHARDS = "shard-*.safetensors"
"""The files of a checkpoint of a sharded run, as torch.distributed.checkpoint names them."""


def checkpoint_name(update: int) -> str:
    return f"step-{update:08d}"


def about_checkpoint(state: TrainState) -> dict[str, object]:
    """What the manifest says."""
    return {"what": "checkpoint", "update": state.progress.updates}


def write_state(folder: Path, state: TrainState) -> None:
    (folder / STATE).write_text(json.dumps(state.as_dict(), indent=2) + "\n", encoding="utf-8")


def is_sharded(folder: Path) -> bool:
    """Whether each rank saved its part of every tensor."""
    return not (folder / WEIGHTS).exists() and any(folder.glob(SHARDS))


def checkpoint_weights(folder: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint."""
    if not is_sharded(folder):
        return read_weights(folder / WEIGHTS)
    from qkv.training.sharded.files import read_whole  # its libraries take seconds to import

    return read_whole(folder)[0]


def checkpoint_shapes(folder: Path) -> dict[str, list[int]]:
    """The shape of each weight in a checkpoint."""
    if not is_sharded(folder):
        return weight_shapes(folder / WEIGHTS)
    from qkv.training.sharded.files import stored_shapes

    return stored_shapes(folder)[0]


def read_state(folder: Path) -> TrainState:
    """The state of the run when the checkpoint in `folder` was written; raises CorruptFolder."""
    path = folder / STATE
    state = read_record(path, TrainState, "the state of a run")
    if checkpoint_name(state.progress.updates) != folder.name:
        raise CorruptFolder(f"{path}: is that of update {state.progress.updates}, not of {folder.name}")
    return state


def require_average(folder: Path) -> None:
    """A checkpoint without a moving average cannot be resumed with one."""
    names = [name for path in folder.glob("*.safetensors") for name in tensor_names(path)]
    if not any(name.startswith("ema/") for name in names):
        raise UsageError(f"{folder}: was trained without training.ema; it cannot be switched on when resuming")


def list_checkpoints(parent: Path) -> list[Path]:
    """Complete checkpoints, oldest first; whether they are undamaged is not checked here."""
    return sorted(path for path in parent.glob("step-*") if path.is_dir() and not path.name.endswith(".tmp"))


def newest_good(parent: Path) -> tuple[Path, list[str]]:
    """The newest undamaged checkpoint, and a sentence for each damaged one that was skipped.

    Those are renamed to damaged-step-N: as the newest they would be kept in place of good ones.
    """
    damaged: dict[Path, str] = {}
    for folder in reversed(list_checkpoints(parent)):
        try:
            verify_folder(folder)
        except CorruptFolder as error:
            damaged[folder] = str(error)
            continue
        for other in damaged:
            set_aside(other)
        return folder, list(damaged.values())
    reasons = "; ".join(damaged.values()) or "none was written"
    raise QkvError(f"{parent}: holds no usable checkpoint ({reasons}); start the run again in a new folder")


def rotate(parent: Path, training: TrainingConfig, validation: ValidationConfig, best_update: int | None) -> None:
    """Remove checkpoints that are neither among the newest nor among the best.

    The checkpoint of `best_update`, from which best/ was saved, ranks first whatever metric chose it.
    """
    folders = list_checkpoints(parent)
    best = [folder for folder in folders if best_update is not None and folder.name == checkpoint_name(best_update)]
    best += [folder for folder in best_checkpoints(folders, validation) if folder not in best]
    keep = {*folders[-training.keep_last :], *best[: training.keep_best]}
    for folder in folders:
        if folder not in keep:
            # Renamed first: a removal that is interrupted never leaves something that looks like a checkpoint.
            doomed = unique_name(folder)
            folder.rename(doomed)
            remove_folder(doomed)


def best_checkpoints(folders: list[Path], validation: ValidationConfig) -> list[Path]:
    """Those that were validated as `validation` does it, best first; among equals the older one."""
    scores = {}
    for folder in folders:
        try:
            score = _score(read_state(folder), validation)
        except CorruptFolder:
            # A damaged checkpoint is not among the best; resuming reports it.
            continue
        if score is not None and not math.isnan(score):
            scores[folder] = score
    sign = -1 if higher_is_better(validation.best) else 1
    return sorted(scores, key=lambda folder: sign * scores[folder])


def _score(state: TrainState, validation: ValidationConfig) -> float | None:
    """The score that `validation` would give; None if these weights were not validated, or differently.

    Every score that was measured is in the state, not only the one that decided then.
    """
    if state.validated.updates != state.progress.updates:
        return None
    if state.scored_by is None:
        # An earlier version: how it decoded is not known, but what its scores mean is.
        comparable = validation.best not in REDEFINED
    else:
        comparable = validation.can_compare({**state.scored_by, "best": validation.best})
    if validation.best != "loss" and not comparable:
        return None
    return {METRICS.current(name): score for name, score in state.last_scores.items()}.get(validation.best)
