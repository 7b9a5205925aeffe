"""Checkpoints: everything that the next update depends on, complete or absent."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import new_folder, verify_folder
from qkv.core.reading import read_record
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
from qkv.training.run.state import TrainState

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
