"""Residual connection and layer norm around a sublayer f, as one object: `x = sublayer(x, f)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.layers.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]
Connection = Callable[[Tensor, Sublayer], Tensor]
"""A `Residual`, or what it gives `for_inference`."""


@dataclass(frozen=True)
class Place:
    """Where in a model a connection stands; a form may depend on how deep both stacks are."""

    encoder_layers: int
    decoder_layers: int
    in_decoder: bool


class ResidualConfig(Config):
    """Where the layer norm stands."""

    adds: ClassVar[bool] = True
    """Whether a sublayer only adds to the stream, which then passes no norm."""

    def build(self, d_model: int, dropout: float, place: Place) -> "Residual":
        """The connection around one sublayer."""
        raise NotImplementedError

    def build_final(self, d_model: int) -> nn.Module:
        """What follows the last layer of a stack, and any other state that leaves it."""
        raise NotImplementedError

    def prepare(self, layer: nn.Module, place: Place) -> None:
        """Change the fresh weights of a layer where the form asks for it."""


residuals = Kinds[ResidualConfig]("residual")


class Residual(nn.Module):
    """Holds the dropout; each form says how it meets the norm, if it has one."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        raise NotImplementedError

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        """`forward` without dropout, its weights bound as plain tensors.

        For one token, looking attributes up in a module takes longer than the arithmetic.
        """
        return self


class NormedResidual(Residual):
    """With one layer norm."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__(dropout)
        self.norm = nn.LayerNorm(d_model)


def norm_for_inference(norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
