"""Sandwich norm (Ding 2021): pre-norm, and a second norm on what the sublayer adds."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from qkv.layers.residual.base import (
    NormedResidual,
    Place,
    ResidualConfig,
    Sublayer,
    norm_for_inference,
    residuals,
)


@residuals.register
class SandwichNormConfig(ResidualConfig):
    """x + LN(f(LN(x))), with one more norm after the stack; bounds what a sublayer adds."""

    kind: Literal["sandwich"] = "sandwich"

    def build(self, d_model: int, dropout: float, place: Place) -> "SandwichNorm":
        return SandwichNorm(d_model, dropout)

    def build_final(self, d_model: int) -> nn.Module:
        return nn.LayerNorm(d_model)


class SandwichNorm(NormedResidual):
    """x + Dropout(LN'(f(LN(x))))"""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__(d_model, dropout)
        self.outer_norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.dropout(self.outer_norm(f(self.norm(x))))

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        norm, outer_norm = norm_for_inference(self.norm), norm_for_inference(self.outer_norm)
        return lambda x, f: x + outer_norm(f(norm(x)))
