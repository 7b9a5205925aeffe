"""What training changes, and its checkpoint: everything that the next update depends on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qkv.core.errors import CorruptFolder, QkvError
from qkv.core.files import new_folder
from qkv.models.base import Model
from qkv.models.saved.folder import WEIGHTS
from qkv.models.saved.weights import load_weights, named_weights, read_tensors, read_weights, write_tensors
from qkv.training.ema import MovingAverage
from qkv.training.optimizers import Optimizer
from qkv.training.run.checkpoint import (
    OPTIMIZER,
    about_checkpoint,
    checkpoint_name,
    is_sharded,
    read_state,
    write_state,
)
from qkv.training.run.state import TrainState
from qkv.training.step.update import FlatGradient, Gradient
from qkv.training.team import TeamOrder


@dataclass
class Learner:
    """The tensors that training changes."""

    model: Model
    optimizer: Optimizer
    ema: MovingAverage | None

    def gradient(self) -> Gradient:
        """Where the gradient of an update is summed."""
        return FlatGradient(self.model)

    @contextmanager
    def averaged(self) -> Iterator[Model]:
        """Context in which the model has the weights that are validated and saved."""
        with self.ema.in_place_of(self.model) if self.ema else self.optimizer.averaged():
            yield self.model

    @contextmanager
    def whole(self) -> Iterator[Model]:
        """The model as it is, for rank 0 alone; all ranks take part."""
        yield self.model

    def tensors(self) -> dict[str, Tensor]:
        """What the next step depends on besides the weights."""
        return self.optimizer.tensors() | (self.ema.tensors() if self.ema else {})

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what `tensors` returned."""
        self.optimizer.restore(tensors)
        if self.ema:
            self.ema.restore(tensors)

    def save(self, parent: Path, state: TrainState, then: Callable[[], None]) -> None:
        """Write a checkpoint, and call `then` when it is complete."""
        require_finite(all(bool(torch.isfinite(weight).all()) for weight in self.model.parameters()), state)
        save_checkpoint(parent, self, state)
        then()

    def load(self, folder: Path) -> TrainState:
        """Restore everything from a checkpoint."""
        return load_checkpoint(folder, self)

    def take_part(self, order: TeamOrder, parent: Path, state: TrainState) -> None:
        """On ranks other than 0: do what rank 0 does with what each of them holds."""

    def finish(self) -> None:
        """Wait until everything is saved."""


def require_finite(finite: bool, state: TrainState) -> None:
    if not finite:
        raise QkvError(
            f"update {state.progress.updates} left weights that are not finite; it was not saved and the last "
            "checkpoint is untouched: lower the learning rate"
        )


def save_checkpoint(parent: Path, learner: Learner, state: TrainState) -> Path:
    """Write `parent/step-N`."""
    folder = parent / checkpoint_name(state.progress.updates)
    with new_folder(folder, about_checkpoint(state)) as temporary:
        write_tensors(temporary / WEIGHTS, named_weights(learner.model))
        write_tensors(temporary / OPTIMIZER, learner.tensors())
        write_state(temporary, state)
    return folder


def load_checkpoint(folder: Path, learner: Learner) -> TrainState:
    """Restore the weights, the optimiser state and the average; returns the state of the run."""
    if is_sharded(folder):
        from qkv.training.sharded.files import read_whole  # its libraries take seconds to import

        weights, tensors = read_whole(folder)
        load_weights(learner.model, weights, folder)
    else:
        load_weights(learner.model, read_weights(folder / WEIGHTS), folder / WEIGHTS)
        tensors = read_tensors(folder / OPTIMIZER)
    for name, tensor in learner.tensors().items():
        if name not in tensors or tensors[name].shape != tensor.shape or tensors[name].dtype != tensor.dtype:
            raise CorruptFolder(f"{folder}: does not fit the run (see {name}); use an earlier checkpoint")
    learner.restore(tensors)
    return read_state(folder)
