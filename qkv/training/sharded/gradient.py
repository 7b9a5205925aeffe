"""The gradient of a sharded model: each rank holds the part of its own weights, summed over all ranks."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from qkv.core.devices import widest_float
from qkv.core.errors import QkvError
from qkv.training.inside.gradients import layer_of
from qkv.training.sharded.model import LossModule, reduce_gradients
from qkv.training.step.update import BatchPart, Gradient, Task, is_out_of_memory
from qkv.training.team import Team


class ShardedGradient(Gradient):
    """FSDP puts the layers together as they are used, and sums and parts the gradients behind them."""

    passes_together = True

    def __init__(self, module: LossModule, team: Team) -> None:
        self.module, self.team = module, team
        self.names = [name for name, _ in module.model.named_parameters()]

    def add(self, task: Task, parts: Sequence[BatchPart], device: torch.device) -> Tensor:
        """Only the last batch of an update sums the gradients over the ranks."""
        # To None: FSDP makes new ones.
        self.module.zero_grad(set_to_none=True)
        sums = torch.zeros(4, dtype=widest_float(device), device=device)
        for number, part in enumerate(parts, 1):
            reduce_gradients(self.module, number == len(parts))
            with self.team.together():
                self._add_one(task, part, sums)
        for parameter in self.module.model.parameters():
            if parameter.grad is None:
                # It is frozen, or has no part in this loss.
                parameter.grad = torch.zeros_like(parameter)
        return sums

    def _add_one(self, task: Task, part: BatchPart, sums: Tensor) -> None:
        try:
            # Without its cache, which would keep every layer in 16 bits until the end of the pass.
            with task.precision.autocast(cache=False):
                loss, numbers = self.module(part.batch, task.update)
            # Rows of another rank have a loss of zero, and a gradient of zero.
            (loss * (task.scale * part.own)).backward()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise QkvError(
                f"out of memory on a batch of {part.batch.size}; a sharded run cannot split it: lower batch.tokens "
                "(and raise training.accumulate to keep the update's size), or set training.activation_checkpointing"
            ) from error
        sums += numbers * part.own

    def local(self) -> list[Tensor]:
        """The parts that this rank holds, by parameter."""
        gradients = [parameter.grad for parameter in self.module.model.parameters()]
        return [gradient.to_local() for gradient in gradients if isinstance(gradient, DTensor)]

    def reduce(self, team: Team, numbers: Tensor) -> Tensor:
        squares = torch.stack(torch._foreach_norm(self.local())).to(numbers).square().sum()
        reduced = torch.cat([numbers, squares[None]])
        team.all_reduce(reduced)
        return torch.cat([reduced[:-1], reduced[-1:].sqrt()])

    def by_layer(self, team: Team) -> dict[str, float]:
        groups: dict[str, list[Tensor]] = defaultdict(list)
        for name, gradient in zip(self.names, self.local(), strict=True):
            groups[layer_of(name)].append(gradient)
        norms = [torch.linalg.vector_norm(torch.stack(torch._foreach_norm(own))) for own in groups.values()]
        squares = torch.stack(norms).square()
        team.all_reduce(squares)
        return dict(zip(groups, squares.sqrt().tolist(), strict=True)) if team.is_main else {}

    def scale(self, factor: float) -> None:
        torch._foreach_mul_(self.local(), factor)
