"""ReZero (Bachlechner 2020): no norm, and a learned gate on each sublayer that starts at 0."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from qkv.layers.residual.base import Place, Residual, ResidualConfig, Sublayer, residuals


@residuals.register
class ReZeroConfig(ResidualConfig):
    """x + a f(x), without a norm; the learned scalar a starts at 0, so that a new stack is the identity."""

    kind: Literal["rezero"] = "rezero"

    def build(self, d_model: int, dropout: float, place: Place) -> "ReZero":
        return ReZero(dropout)

    def build_final(self, d_model: int) -> nn.Module:
        return nn.Identity()


class ReZero(Residual):
    """x + a Dropout(f(x)), a = 0 at the start"""

    def __init__(self, dropout: float) -> None:
        super().__init__(dropout)
        self.gain = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return torch.addcmul(x, self.gain, self.dropout(f(x)))

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        gain = self.gain
        return lambda x, f: torch.addcmul(x, gain, f(x))
