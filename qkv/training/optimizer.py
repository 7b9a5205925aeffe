"""AdamW on one flat gradient, and its state as named tensors."""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim.adamw import adamw

from qkv.config.base import Config


class OptimizerConfig(Config):
    """AdamW (Loshchilov & Hutter 2019); without weight decay it is Adam."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the mean gradient."""
    beta2: float = Field(default=0.98, ge=0, lt=1)
    """Decay of the mean squared gradient."""
    eps: float = Field(default=1e-9, gt=0)
    """Added to the root of the mean squared gradient."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay of the matrices; biases and norms have none."""
    clip_norm: float | None = Field(default=1.0, gt=0)
    """Longest gradient of an update; null switches clipping off."""

    def build(self, model: nn.Module) -> "AdamW":
        return AdamW(model, self)


class AdamW:
    """PyTorch's fused AdamW, called as a function: making its class imports the compiler, seconds at every start."""

    def __init__(self, model: nn.Module, config: OptimizerConfig) -> None:
        self.config = config
        named = list(model.named_parameters())
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.steps = [torch.zeros(()) for _ in named]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move the weights by their gradients; only matrices decay."""
        for matrices, decay in ((True, self.config.weight_decay), (False, 0.0)):
            chosen = [i for i, parameter in enumerate(self.parameters) if (parameter.dim() > 1) == matrices]
            adamw(
                [self.parameters[i] for i in chosen],
                [self._gradient(i) for i in chosen],
                [self.means[i] for i in chosen],
                [self.squares[i] for i in chosen],
                [],
                [self.steps[i] for i in chosen],
                fused=True,
                amsgrad=False,
                beta1=self.config.beta1,
                beta2=self.config.beta2,
                lr=rate,
                weight_decay=decay,
                eps=self.config.eps,
                maximize=False,
            )

    def _gradient(self, index: int) -> Tensor:
        gradient = self.parameters[index].grad
        if gradient is None:
            raise ValueError(f"{self.names[index]} has no gradient")
        return gradient

    def tensors(self) -> dict[str, Tensor]:
        """The memory of the optimiser, as `moment/parameter`."""
        moments = {"mean": self.means, "square": self.squares, "step": self.steps}
        return {
            f"{moment}/{name}": tensor
            for moment, tensors in moments.items()
            for name, tensor in zip(self.names, tensors, strict=True)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        for name, own in self.tensors().items():
            own.copy_(tensors[name])


class FlatGradient:
    """The gradients of all parameters in one piece of memory, so that summing, clipping and sending is one call."""

    def __init__(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        self.flat = torch.zeros(sum(p.numel() for p in parameters))
        for parameter, piece in zip(parameters, torch.split(self.flat, [p.numel() for p in parameters]), strict=True):
            parameter.grad = piece.view_as(parameter)

    def clear(self) -> None:
        self.flat.zero_()

    def finish(self, weight: float, clip_norm: float | None) -> float:
        """Divide the summed gradient by `weight`, clip it, and return its norm before clipping."""
        norm = float(torch.linalg.vector_norm(self.flat)) / weight
        scale = 1.0 / weight
        if clip_norm is not None and norm > clip_norm:
            scale *= clip_norm / norm
        self.flat.mul_(scale)
        return norm
