"""Checkpoints: everything that the next update depends on, complete or absent, and which of them are kept."""

import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import new_folder, verify_folder
from qkv.core.reading import read_record
from qkv.core.temporary import unique_name
from qkv.evaluation.metrics.registry import METRICS, REDEFINED
from qkv.models.base import Model
from qkv.models.saved.folder import WEIGHTS
from qkv.models.saved.weights import (
    load_weights,
    named_weights,
    read_tensors,
    read_weights,
    tensor_names,
    write_tensors,
)
from qkv.training.ema import MovingAverage
from qkv.training.optimizers import Optimizer
from qkv.training.recipe import TrainingConfig, ValidationConfig
from qkv.training.run.state import TrainState
from qkv.training.validation import higher_is_better

OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"


@dataclass
class Learner:
    """The tensors that training changes."""

    model: Model
    optimizer: Optimizer
    ema: MovingAverage | None


def checkpoint_name(update: int) -> str:
    return f"step-{update:08d}"


def save_checkpoint(parent: Path, learner: Learner, state: TrainState) -> Path:
    """Write `parent/step-N`."""
    folder = parent / checkpoint_name(state.progress.updates)
    about = {"what": "checkpoint", "update": state.progress.updates}
    with new_folder(folder, about) as temporary:
        write_tensors(temporary / WEIGHTS, named_weights(learner.model))
        tensors = learner.optimizer.tensors()
        if learner.ema:
            tensors |= learner.ema.tensors()
        write_tensors(temporary / OPTIMIZER, tensors)
        (temporary / STATE).write_text(json.dumps(state.as_dict(), indent=2) + "\n", encoding="utf-8")
    return folder


def load_checkpoint(folder: Path, learner: Learner) -> TrainState:
    """Restore the weights, the optimiser state and the average; returns the state of the run."""
    load_weights(learner.model, read_weights(folder / WEIGHTS), folder / WEIGHTS)
    tensors = read_tensors(folder / OPTIMIZER)
    wanted = learner.optimizer.tensors() | (learner.ema.tensors() if learner.ema else {})
    for name, tensor in wanted.items():
        if name not in tensors or tensors[name].shape != tensor.shape or tensors[name].dtype != tensor.dtype:
            raise CorruptFolder(f"{folder / OPTIMIZER}: does not fit the run (see {name}); use an earlier checkpoint")
    learner.optimizer.restore(tensors)
    if learner.ema:
        learner.ema.restore(tensors)
    return read_state(folder)


def read_state(folder: Path) -> TrainState:
    """The state of the run when the checkpoint in `folder` was written; raises CorruptFolder."""
    path = folder / STATE
    state = read_record(path, TrainState, "the state of a run")
    if checkpoint_name(state.progress.updates) != folder.name:
        raise CorruptFolder(f"{path}: is that of update {state.progress.updates}, not of {folder.name}")
    return state


def require_average(folder: Path) -> None:
    """A checkpoint without a moving average cannot be resumed with one."""
    if not any(name.startswith("ema/") for name in tensor_names(folder / OPTIMIZER)):
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
            aside = other.with_name(f"damaged-{other.name}")
            if aside.exists():
                shutil.rmtree(aside)
            other.rename(aside)
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
            shutil.rmtree(doomed)


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
