"""One update's gradient: batches in, summed gradient and sums of the loss out."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from qkv.core.devices import widest_float
from qkv.core.errors import QkvError
from qkv.data.tasks.base import TrainingBatch
from qkv.models.base import Model
from qkv.objectives.base import Objective
from qkv.training.inside.gradients import gradient_norms
from qkv.training.step.precision import Precision
from qkv.training.team import Team


def derived_seed(*parts: int | str) -> int:
    """63 bits from the parts; the same on every machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def seed_for(*parts: int | str) -> None:
    """Make torch's generators a function of `parts`; dropout, noise and fresh weights draw from them."""
    torch.manual_seed(derived_seed(*parts))


class BatchPart(NamedTuple):
    """A batch of an update, on the device of the run."""

    batch: TrainingBatch
    own: bool = True
    """False: these are rows of another rank, which count for nothing here. A sharded model needs the same number of
    passes on every rank."""


class Gradient(ABC):
    """The gradient of an update: of a model that every rank holds, or of one that is sharded."""

    passes_together: ClassVar[bool]
    """Whether every rank must compute as many batches as every other."""

    @abstractmethod
    def add(self, task: "Task", parts: Sequence[BatchPart], device: torch.device) -> Tensor:
        """Replace the gradient by the sum of those of `parts`; returns their `Sums` [4]."""

    @abstractmethod
    def reduce(self, team: Team, numbers: Tensor) -> Tensor:
        """Sum the gradient and `numbers` [n] over all ranks; [n + 1]: the numbers, and the norm of the gradient."""

    @abstractmethod
    def by_layer(self, team: Team) -> dict[str, float]:
        """Its norm in each layer; on rank 0, all ranks take part."""

    @abstractmethod
    def scale(self, factor: float) -> None:
        """Multiply it."""

    def finish(self, norm: float, weight: float, clip_norm: float | None) -> float:
        """Divide the sum, whose norm is `norm`, by `weight`, clip it, and return the norm before clipping."""
        norm /= weight
        scale = 1.0 / weight
        if clip_norm is not None and norm > clip_norm:
            scale *= clip_norm / norm
        self.scale(scale)
        return norm


class FlatGradient(Gradient):
    """The gradients of all parameters in one contiguous buffer, so that reducing and clipping are one call each."""

    passes_together = False

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        parameters = list(model.parameters())
        self.flat = parameters[0].new_zeros(sum(p.numel() for p in parameters), requires_grad=False)
        for parameter, piece in zip(parameters, torch.split(self.flat, [p.numel() for p in parameters]), strict=True):
            parameter.grad = piece.view_as(parameter)

    def clear(self) -> None:
        self.flat.zero_()

    def norm(self) -> Tensor:
        """The norm of what was summed, on its device."""
        norm: Tensor = torch.linalg.vector_norm(self.flat)
        return norm

    def add(self, task: "Task", parts: Sequence[BatchPart], device: torch.device) -> Tensor:
        self.clear()
        return add_gradients(task, [part.batch for part in parts], device)

    def reduce(self, team: Team, numbers: Tensor) -> Tensor:
        team.all_reduce(numbers)
        team.all_reduce(self.flat)
        return torch.cat([numbers, self.norm().to(numbers)[None]])

    def by_layer(self, team: Team) -> dict[str, float]:
        return gradient_norms(self.model) if team.is_main else {}

    def scale(self, factor: float) -> None:
        self.flat.mul_(factor)


@dataclass
class Sums:
    """Sums over the target tokens of an update."""

    loss: float = 0.0
    nll: float = 0.0
    weight: float = 0.0
    left_out: float = 0.0
    """Pairs that do not fit on the model's canvas; a float like the others, since all are reduced together."""


@dataclass(frozen=True)
class Task:
    """What the gradient of a batch depends on besides the batch."""

    model: Model
    objective: Objective
    update: int
    precision: Precision
    scale: float = 1.0
    """Of the loss before the backward pass, so that small gradients do not become zero in float16."""


def add_gradients(task: Task, batches: Sequence[TrainingBatch], device: torch.device) -> Tensor:
    """Add the gradient of every batch to the parameters' `.grad`, which are zero; nothing is divided here.

    Returns the `Sums` [4] of the batches, which are on `device` as the model is. A batch that does not fit into memory
    is split once by rows. The update then starts again from zero, since part of a backward pass may have been added
    already.
    """
    parts = [(batch, len(batch) > 1) for batch in batches]
    while True:
        sums = torch.zeros(4, dtype=widest_float(device), device=device)
        too_large = _add_all(task, parts, sums)
        if too_large is None:
            return sums
        halves = [(half, False) for half in parts[too_large][0].split()]
        parts[too_large : too_large + 1] = halves
        task.model.zero_grad(set_to_none=False)


def _add_all(task: Task, parts: list[tuple[TrainingBatch, bool]], sums: Tensor) -> int | None:
    """Accumulate all parts (a batch, and whether it may be split); returns which one must be split first, if any."""
    for number, (batch, may_split) in enumerate(parts):
        try:
            _add_one(task, batch, sums)
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error) and may_split:
                return number
            raise _explained(error, batch) from error
    return None


def _add_one(task: Task, batch: TrainingBatch, sums: Tensor) -> None:
    with task.precision.autocast():
        report = task.objective.training_loss(task.model, batch, task.update)
    (report.sum if task.scale == 1 else report.sum * task.scale).backward()
    sums += report.numbers


def is_out_of_memory(error: BaseException) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError) or "can't allocate memory" in words or "out of memory" in words


def _explained(error: BaseException, batch: TrainingBatch) -> BaseException:
    if not is_out_of_memory(error):
        return error
    return QkvError(
        f"out of memory on a batch of {batch.size}, also after splitting it; "
        "lower batch.tokens (and raise training.accumulate to keep the update's size), or "
        f"{batch.smaller_examples}"
    )
