"""Exponential moving average (EMA) of the weights: smoother than the last weights, and free at decoding time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """a <- decay a + (1 - decay) w after every update; early averages forget faster: decay <= (1 + n) / (10 + n)."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.names = [name for name, _ in model.named_parameters()]
        self.averages = [parameter.detach().clone() for parameter in model.parameters()]

    @torch.no_grad()
    def add(self, model: nn.Module, update: int) -> None:
        decay = min(self.decay, (1 + update) / (10 + update))
        torch._foreach_lerp_(self.averages, list(model.parameters()), 1.0 - decay)

    @contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """Context in which the model has the averaged weights; its own are restored bit for bit afterwards."""
        own = [parameter.detach().clone() for parameter in model.parameters()]
        self._put(model, self.averages)
        try:
            yield
        finally:
            self._put(model, own)

    @staticmethod
    @torch.no_grad()
    def _put(model: nn.Module, values: list[Tensor]) -> None:
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(value)

    def tensors(self) -> dict[str, Tensor]:
        return {f"ema/{name}": average for name, average in zip(self.names, self.averages, strict=True)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for name, average in self.tensors().items():
            average.copy_(tensors[name])
