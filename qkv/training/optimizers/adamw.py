"""AdamW on PyTorch's fused kernel, with its state as named tensors."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim.adamw import adamw

from qkv.training.optimizers.base import OptimizerConfig, gradient, optimizers


@optimizers.register
class AdamWConfig(OptimizerConfig):
    """AdamW (Loshchilov & Hutter 2019); without weight decay it is Adam."""

    shards: ClassVar[bool] = True

    kind: Literal["adamw"] = "adamw"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the mean gradient."""
    beta2: float = Field(default=0.98, ge=0, lt=1)
    """Decay of the mean squared gradient."""
    eps: float = Field(default=1e-9, gt=0)
    """Added to the root of the mean squared gradient."""

    def build(self, model: nn.Module) -> "AdamW":
        return AdamW(model.named_parameters(), (self.beta1, self.beta2), self.eps, self.weight_decay)


class AdamW:
    """PyTorch's fused AdamW, called as a function: making its class imports the compiler, seconds at every start."""

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, nn.Parameter]],
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-9,
        weight_decay: float = 0.0,
    ) -> None:
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        named = list(named_parameters)
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.steps = [torch.zeros((), device=parameter.device) for parameter in self.parameters]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move the weights by their gradients; only matrices decay."""
        for matrices, decay in ((True, self.weight_decay), (False, 0.0)):
            chosen = [i for i, parameter in enumerate(self.parameters) if (parameter.dim() > 1) == matrices]
            adamw(
                [self.parameters[i] for i in chosen],
                [gradient(self.names[i], self.parameters[i]) for i in chosen],
                [self.means[i] for i in chosen],
                [self.squares[i] for i in chosen],
                [],
                [self.steps[i] for i in chosen],
                fused=True,
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=rate,
                weight_decay=decay,
                eps=self.eps,
                maximize=False,
            )

    def averaged(self) -> AbstractContextManager[None]:
        return nullcontext()

    def tensors(self) -> dict[str, Tensor]:
        moments = {"mean": self.means, "square": self.squares, "step": self.steps}
        return {
            f"{moment}/{name}": tensor
            for moment, tensors in moments.items()
            for name, tensor in zip(self.names, tensors, strict=True)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for name, own in self.tensors().items():
            own.copy_(tensors[name])
