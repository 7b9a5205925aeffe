"""Residual connection and layer norm around a sublayer f, as one object: `x = sublayer(x, f)`."""

from collections.abc import Callable
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.kernels.norm import residual_norm
from qkv.layers.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class ResidualConfig(Config):
    """Where the layer norm stands."""

    def build(self, d_model: int, dropout: float) -> "Residual":
        """The connection around one sublayer."""
        raise NotImplementedError

    def build_final(self, d_model: int) -> nn.Module:
        """What follows the last layer of a stack."""
        raise NotImplementedError


residuals = Kinds[ResidualConfig]("residual")
AnyResidual = Annotated[ResidualConfig, residuals]


class Residual(nn.Module):
    """Holds the norm and the dropout; each form says how they meet."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        raise NotImplementedError

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        """`forward` without dropout, its weights bound as plain tensors.

        For one token, looking attributes up in a module takes longer than the arithmetic.
        """
        return self


@residuals.register
class PostNormConfig(ResidualConfig):
    """LN(x + f(x)), the paper."""

    kind: Literal["post"] = "post"

    def build(self, d_model: int, dropout: float) -> "PostNorm":
        return PostNorm(d_model, dropout)

    def build_final(self, d_model: int) -> nn.Module:
        return nn.Identity()


class PostNorm(Residual):
    """LN(x + Dropout(f(x)))"""

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        rate = self.dropout.rate if self.training else 0.0
        return residual_norm(x, f(x), self.norm.weight, self.norm.bias, rate, self.norm.eps)

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        norm = norm_for_inference(self.norm)
        return lambda x, f: norm(x + f(x))


@residuals.register
class PreNormConfig(ResidualConfig):
    """x + f(LN(x)), with one more norm after the stack; trains deeper stacks."""

    kind: Literal["pre"] = "pre"

    def build(self, d_model: int, dropout: float) -> "PreNorm":
        return PreNorm(d_model, dropout)

    def build_final(self, d_model: int) -> nn.Module:
        return nn.LayerNorm(d_model)


class PreNorm(Residual):
    """x + Dropout(f(LN(x)))"""

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.dropout(f(self.norm(x)))

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        norm = norm_for_inference(self.norm)
        return lambda x, f: x + f(norm(x))


def norm_for_inference(norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
