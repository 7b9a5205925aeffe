"""DeepNorm (Wang 2022): post-norm for very deep stacks, with an up-weighted residual and smaller initial weights."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
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


class DeepNormConstants(NamedTuple):
    """alpha scales the residual; beta is the gain of the value, output and feed-forward matrices."""

    alpha: float
    beta: float


def deepnorm_constants(place: Place) -> DeepNormConstants:
    """For N encoder and M decoder layers.

    Encoder: alpha = 0.81 (N^4 M)^(1/16), beta = 0.87 (N^4 M)^(-1/16). Decoder: alpha = (3M)^(1/4), beta = (12M)^(-1/4).
    A stack alone: alpha = (2N)^(1/4), beta = (8N)^(-1/4).
    """
    n, m = place.encoder_layers, place.decoder_layers
    if not n or not m:
        alone = n + m
        return DeepNormConstants((2 * alone) ** 0.25, (8 * alone) ** -0.25)
    if place.in_decoder:
        return DeepNormConstants((3 * m) ** 0.25, (12 * m) ** -0.25)
    return DeepNormConstants(0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16))


@residuals.register
class DeepNormConfig(ResidualConfig):
    """LN(alpha x + f(x)), with smaller initial weights in deeper models; alpha and beta are the paper's."""

    adds = False
    kind: Literal["deepnorm"] = "deepnorm"

    def build(self, d_model: int, dropout: float, place: Place) -> "DeepNorm":
        return DeepNorm(d_model, dropout, deepnorm_constants(place).alpha)

    def build_final(self, d_model: int) -> nn.Module:
        return nn.Identity()

    @torch.no_grad()
    def prepare(self, layer: nn.Module, place: Place) -> None:
        """Gain beta for value, output and feed-forward matrices; queries, keys and gates keep gain 1."""
        beta = deepnorm_constants(place).beta
        for name, module in layer.named_modules():
            if isinstance(module, nn.Linear) and name.endswith(("value", "value_global", "output", "inner", "outer")):
                module.weight *= beta


class DeepNorm(NormedResidual):
    """LN(alpha x + Dropout(f(x)))"""

    def __init__(self, d_model: int, dropout: float, alpha: float) -> None:
        super().__init__(d_model, dropout)
        self.alpha = alpha

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        rate = self.dropout.rate if self.training else 0.0
        return residual_norm(self.alpha * x, f(x), self.norm.weight, self.norm.bias, rate, self.norm.eps)

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        norm, alpha = norm_for_inference(self.norm), self.alpha
        return lambda x, f: norm(torch.add(f(x), x, alpha=alpha))
