"""AdamW on one flat gradient, and its state as named tensors."""

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

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

    def build(self, model: nn.Module) -> torch.optim.AdamW:
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        groups: list[dict[str, Any]] = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
        return torch.optim.AdamW(
            groups,
            lr=0.0,
            betas=(self.beta1, self.beta2),
            eps=self.eps,
            weight_decay=self.weight_decay,
            fused=True,
        )


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


MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimiser's memory as `moment/parameter`; empty before the first update."""
    return {
        f"{moment}/{name}": optimizer.state[parameter][moment]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for moment in MOMENTS
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
    for name, parameter in model.named_parameters():
        if f"step/{name}" in tensors:
            optimizer.state[parameter] = {moment: tensors[f"{moment}/{name}"].clone() for moment in MOMENTS}
