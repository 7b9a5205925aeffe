"""All gradients in one piece of memory."""

import torch
from torch import nn


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
