"""An optimiser: Lion, which moves every weight by the same amount (Chen et al. 2023)."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from qkv import optimizers
from qkv.training.optimizers import OptimizerConfig


@optimizers.register
class LionConfig(OptimizerConfig):
    """The sign of the momentum; takes rates three to ten times lower than AdamW."""

    kind: Literal["lion"] = "lion"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Share of the momentum in an update."""
    beta2: float = Field(default=0.99, ge=0, lt=1)
    """Decay of the momentum."""

    def build(self, model: nn.Module) -> "Lion":
        return Lion(dict(model.named_parameters()), self.beta1, self.beta2, self.weight_decay)


class Lion:
    """w -= rate (sign(b1 m + (1 - b1) g) + decay w);  m = b2 m + (1 - b2) g"""

    def __init__(self, parameters: dict[str, nn.Parameter], beta1: float, beta2: float, weight_decay: float) -> None:
        self.parameters = parameters
        self.beta1, self.beta2, self.weight_decay = beta1, beta2, weight_decay
        self.momenta = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for name, parameter in self.parameters.items():
            gradient, momentum = parameter.grad, self.momenta[name]
            assert gradient is not None
            update = torch.sign(self.beta1 * momentum + (1 - self.beta1) * gradient)
            decay = self.weight_decay if parameter.dim() > 1 else 0.0
            parameter -= rate * (update + decay * parameter)
            momentum.lerp_(gradient, 1 - self.beta2)

    def averaged(self) -> AbstractContextManager[None]:
        return nullcontext()

    def tensors(self) -> dict[str, Tensor]:
        return {f"momentum/{name}": momentum for name, momentum in self.momenta.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for name, own in self.tensors().items():
            own.copy_(tensors[name])
