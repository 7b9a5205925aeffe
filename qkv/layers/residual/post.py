"""Post-norm, section 3.1 of the paper."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from qkv.kernels.norm import residual_norm
from qkv.layers.residual.base import (
    NormedResidual,
    Place,
    ResidualConfig,
    Sublayer,
    norm_for_inference,
    residuals,
)


@residuals.register
class PostNormConfig(ResidualConfig):
    """LN(x + f(x)), as in the paper."""

    adds = False
    kind: Literal["post"] = "post"

    def build(self, d_model: int, dropout: float, place: Place) -> "PostNorm":
        return PostNorm(d_model, dropout)

    def build_final(self, d_model: int) -> nn.Module:
        return nn.Identity()


class PostNorm(NormedResidual):
    """LN(x + Dropout(f(x)))"""

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        rate = self.dropout.rate if self.training else 0.0
        return residual_norm(x, f(x), self.norm.weight, self.norm.bias, rate, self.norm.eps)

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        norm = norm_for_inference(self.norm)
        return lambda x, f: norm(x + f(x))
