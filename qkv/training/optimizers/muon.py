"""Muon: orthogonalised momentum for the matrices inside the layers; AdamW for everything else."""

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from qkv.functional.orthogonal import newton_schulz
from qkv.training.optimizers.adamw import AdamW
from qkv.training.optimizers.base import OptimizerConfig, gradient, optimizers, shard_like, whole_tensor


@optimizers.register
class MuonConfig(OptimizerConfig):
    """Muon (Jordan et al. 2024) for the weights of linear layers, AdamW for embeddings, norms and biases.

    Learns more from each update than AdamW; a step takes longer, so it pays off with batches of 2,000 tokens or more.
    With training.sharding full every rank puts all these gradients together once more and does the same step.
    """

    shards: ClassVar[bool] = True

    kind: Literal["muon"] = "muon"
    momentum: float = Field(default=0.95, ge=0, lt=1)
    """Decay of the sum of gradients (Nesterov)."""
    factor: float = Field(default=0.7, gt=0)
    """Size of a step: factor x sqrt(larger side) x learning rate, so that the rates of AdamW carry over."""
    steps: int = Field(default=5, ge=1, le=20)
    """Newton-Schulz iterations."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """AdamW: decay of the mean gradient."""
    beta2: float = Field(default=0.98, ge=0, lt=1)
    """AdamW: decay of the mean squared gradient."""
    eps: float = Field(default=1e-9, gt=0)
    """AdamW: added to the root of the mean squared gradient."""

    def build(self, model: nn.Module) -> "Muon":
        hidden = hidden_matrices(model)
        others = [(name, parameter) for name, parameter in model.named_parameters() if name not in hidden]
        adamw = AdamW(others, (self.beta1, self.beta2), self.eps, self.weight_decay)
        return Muon(hidden.items(), adamw, self.momentum, self.factor, self.steps, self.weight_decay)


def hidden_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of the linear layers by name. Token tables and output heads are not among them."""
    linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)}
    tables = {
        id(parameter)
        for module in model.modules()
        if not isinstance(module, nn.Linear)
        for parameter in module.parameters(recurse=False)
    }
    return {name: parameter for name, parameter in model.named_parameters() if id(parameter) in linear - tables}


class Muon:
    """W <- W - rate factor sqrt(max(M, N)) NewtonSchulz(G + momentum B), with B <- momentum B + G."""

    def __init__(
        self,
        named_matrices: Iterable[tuple[str, nn.Parameter]],
        others: AdamW,
        momentum: float = 0.95,
        factor: float = 0.7,
        steps: int = 5,
        weight_decay: float = 0.0,
    ) -> None:
        self.others, self.momentum, self.factor, self.steps = others, momentum, factor, steps
        self.weight_decay = weight_decay
        self.matrices = dict(named_matrices)
        self.buffers = {name: torch.zeros_like(matrix) for name, matrix in self.matrices.items()}
        shapes: dict[torch.Size, list[str]] = {}
        for name, matrix in self.matrices.items():
            shapes.setdefault(matrix.shape, []).append(name)
        self.stacks = list(shapes.values())
        """Names of matrices of one shape: they are orthogonalised together."""

    @torch.no_grad()
    def step(self, rate: float) -> None:
        self.others.step(rate)
        for names in self.stacks:
            matrices: list[Tensor] = [self.matrices[name] for name in names]
            gradients = [gradient(name, self.matrices[name]) for name in names]
            buffers = [self.buffers[name] for name in names]
            torch._foreach_mul_(buffers, self.momentum)
            torch._foreach_add_(buffers, gradients)
            ahead = torch._foreach_add(gradients, buffers, alpha=self.momentum)
            directions = newton_schulz(torch.stack([whole_tensor(matrix) for matrix in ahead]), self.steps)
            if self.weight_decay:
                torch._foreach_mul_(matrices, 1 - rate * self.weight_decay)
            size = rate * self.factor * math.sqrt(max(matrices[0].shape))
            moves = [shard_like(direction, matrix) for direction, matrix in zip(directions, matrices, strict=True)]
            torch._foreach_add_(matrices, moves, alpha=-size)

    def averaged(self) -> AbstractContextManager[None]:
        return nullcontext()

    def tensors(self) -> dict[str, Tensor]:
        return self.others.tensors() | {f"momentum/{name}": buffer for name, buffer in self.buffers.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.others.restore(tensors)
        for name, buffer in self.buffers.items():
            buffer.copy_(tensors[f"momentum/{name}"])
