"""Pre-norm with RMS norm, as in T5 (Raffel et al. 2020)."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from qkv.layers.residual.base import Place, Residual, ResidualConfig, Sublayer, residuals

EPSILON = 1e-6


@residuals.register
class PreRMSNormConfig(ResidualConfig):
    """x + f(RMS(x)), with one more norm after the stack; no mean is subtracted and no bias added."""

    kind: Literal["pre_rms"] = "pre_rms"

    def build(self, d_model: int, dropout: float, place: Place) -> "PreRMSNorm":
        return PreRMSNorm(d_model, dropout)

    def build_final(self, d_model: int) -> nn.Module:
        return nn.RMSNorm(d_model, EPSILON)


class PreRMSNorm(Residual):
    """x + Dropout(f(RMS(x))), RMS(x) = g x / sqrt(mean(x²) + ε)"""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__(dropout)
        self.norm = nn.RMSNorm(d_model, EPSILON)

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.dropout(f(self.norm(x)))

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        shape, weight, eps = self.norm.normalized_shape, self.norm.weight, self.norm.eps
        return lambda x, f: x + f(F.rms_norm(x, list(shape), weight, eps))
