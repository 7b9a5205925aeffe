"""What training changes, when each rank holds a part of it. What rank 0 does alone needs the others all the same."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.tensor import DTensor

from qkv.core.devices import CPU
from qkv.core.errors import CorruptFolder, QkvError
from qkv.core.files import new_folder
from qkv.models.base import Model
from qkv.training.run.checkpoint import about_checkpoint, checkpoint_name, read_state, write_state
from qkv.training.run.learner import Learner, require_finite
from qkv.training.run.state import TrainState
from qkv.training.sharded.files import begin_to_write, read_into, reason_of
from qkv.training.sharded.gradient import ShardedGradient
from qkv.training.sharded.model import LossModule
from qkv.training.step.update import Gradient
from qkv.training.team import Team, TeamOrder


@dataclass
class ShardedLearner(Learner):
    """Its model is sharded, so its tensors are DTensors; `twin`, on rank 0, is the same model in one
    piece, whose weights are there only while it is used."""

    module: LossModule
    team: Team
    twin: Model | None
    saving: dist.ProcessGroup = field(init=False)
    """A group of its own: the thread that saves must not meet what training sums."""
    pending: Future[Any] | None = None
    """A checkpoint that is being written."""

    def __post_init__(self) -> None:
        if self.twin is not None:
            drop_weights(self.twin)
        self.saving = dist.new_group(backend="gloo")
        self._thread = ThreadPoolExecutor(1, "qkv-checkpoint")

    def gradient(self) -> Gradient:
        return ShardedGradient(self.module, self.team)

    @contextmanager
    def averaged(self) -> Iterator[Model]:
        """On rank 0, in one piece; the others are told to take part."""
        self.team.tell(TeamOrder.GATHER)
        with super().averaged():
            self._gather()
        with self._on_device() as twin:
            yield twin

    @contextmanager
    def whole(self) -> Iterator[Model]:
        self._gather()
        with self._on_device() as twin:
            yield twin

    @torch.no_grad()
    def _gather(self) -> None:
        """Put each parameter together in turn; rank 0 keeps it."""
        kept = self.twin.parameters() if self.twin is not None else [None] * len(list(self.model.parameters()))
        with self.team.together():
            for own, whole in zip(kept, self.model.parameters(), strict=True):
                assert isinstance(whole, DTensor)
                value = whole.full_tensor()
                if own is not None:
                    own.data = value

    @contextmanager
    def _on_device(self) -> Iterator[Model]:
        """The whole model; between its uses its weights take no memory."""
        twin = self.twin if self.twin is not None else self.model
        try:
            yield twin.to(self.model.device)
        finally:
            if self.twin is not None:
                drop_weights(self.twin)

    def take_part(self, order: TeamOrder, parent: Path, state: TrainState) -> None:
        if order == TeamOrder.GATHER:
            with super().averaged():
                self._gather()
        elif order == TeamOrder.SAVE:
            self.finish()
            self._save(parent, state, None)

    def save(self, parent: Path, state: TrainState, then: Callable[[], None]) -> None:
        """Begin to write a checkpoint: the tensors are copied at once, and written while training goes on."""
        self.finish()
        self.team.tell(TeamOrder.SAVE)
        folder, stack = parent / checkpoint_name(state.progress.updates), ExitStack()
        temporary = stack.enter_context(new_folder(folder, about_checkpoint(state)))
        with stack:
            write_state(temporary, state)
            written = self._save(parent, state, temporary)
            self.pending = self._thread.submit(_complete, written, stack.pop_all(), then)

    def _save(self, parent: Path, state: TrainState, temporary: Path | None) -> Future[Any]:
        finite = torch.tensor([self._is_finite()], dtype=torch.float64)
        self.team.all_reduce(finite)
        require_finite(float(finite) == self.team.world, state)
        names = [str(temporary)]
        with self.team.together():
            dist.broadcast_object_list(names, 0, device=CPU)
            self.pending = begin_to_write(names[0], self._weights(), self.tensors(), self.saving)
        return self.pending

    def _is_finite(self) -> bool:
        return all(bool(torch.isfinite(weight.to_local()).all()) for weight in self._weights().values())

    def _weights(self) -> dict[str, DTensor]:
        weights = {name: weight.detach() for name, weight in self.model.named_parameters()}
        return {name: weight for name, weight in weights.items() if isinstance(weight, DTensor)}

    def load(self, folder: Path) -> TrainState:
        """From a checkpoint of any number of ranks, sharded or not."""
        with self.team.together():
            read_into(folder, self._weights(), self.tensors())
        finite = torch.tensor([self._is_finite()], dtype=torch.float64)
        self.team.all_reduce(finite)
        if float(finite) != self.team.world:
            raise CorruptFolder(f"{folder}: holds weights that are not finite; use an earlier checkpoint")
        return read_state(folder)

    def finish(self) -> None:
        """Wait for the checkpoint that is being written."""
        pending, self.pending = self.pending, None
        if pending is None:
            return
        try:
            pending.result()
        except QkvError:
            raise
        except (Exception, CheckpointException) as error:
            raise QkvError(
                f"the checkpoint could not be written ({reason_of(error)}); the one before it is good"
            ) from error


def drop_weights(model: Model) -> None:
    """Free the weights of a model; each gets a new value before it is used again."""
    for weight in model.parameters():
        weight.data = weight.data.new_empty(0)


def _complete(written: Future[Any], folder: ExitStack, then: Callable[[], None]) -> None:
    """On rank 0: when every rank has written its part, write the manifest and rename the folder."""
    with folder:
        written.result()
    then()
