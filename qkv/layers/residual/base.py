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
"""A `Residual`, or its `for_inference`."""


@dataclass(frozen=True)
class Place:
    """The place of a connection in a model; a kind may depend on the depth of both stacks."""

    encoder_layers: int
    decoder_layers: int
    in_decoder: bool


class ResidualConfig(Config):
    """Where the layer norm is applied."""

    adds: ClassVar[bool] = True
    """Whether a sublayer only adds to the stream, which then passes no norm."""

    def build(self, d_model: int, dropout: float, place: Place) -> "Residual":
        """The connection around one sublayer."""
        raise NotImplementedError

    def build_final(self, d_model: int) -> nn.Module:
        """The norm after the last layer of a stack, and on any other state that leaves it."""
        raise NotImplementedError

    def prepare(self, layer: nn.Module, place: Place) -> None:
        """Change the initial weights of a layer, if the kind does."""


residuals = Kinds[ResidualConfig]("residual")


class Residual(nn.Module):
    """Holds the dropout; subclasses combine it with the norm, if they have one."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        raise NotImplementedError

    def for_inference(self) -> Callable[[Tensor, Sublayer], Tensor]:
        """`forward` without dropout, with weights as plain tensors.

        For one token, looking up attributes of a module takes longer than the arithmetic.
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
