"""Pre-norm: the residual stream itself is never normalised."""

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
class PreNormConfig(ResidualConfig):
    """x + f(LN(x)), with one more norm after the stack; trains deeper stacks."""

    kind: Literal["pre"] = "pre"

    def build(self, d_model: int, dropout: float, place: Place) -> "PreNorm":
        return PreNorm(d_model, dropout)

    def build_final(self, d_model: int) -> nn.Module:
        return nn.LayerNorm(d_model)


class PreNorm(NormedResidual):
    """x + Dropout(f(LN(x)))"""

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.dropout(f(self.norm(x)))

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        norm = norm_for_inference(self.norm)
        return lambda x, f: x + f(norm(x))
