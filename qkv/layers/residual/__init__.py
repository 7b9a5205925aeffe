"""Residual connection and layer norm around a sublayer, as one object: one file per kind."""

from typing import Annotated

from qkv.layers.residual.base import Connection, NormedResidual, Place, Residual, ResidualConfig, Sublayer, residuals
from qkv.layers.residual.deepnorm import DeepNormConfig
from qkv.layers.residual.post import PostNormConfig
from qkv.layers.residual.pre import PreNorm, PreNormConfig
from qkv.layers.residual.pre_rms import PreRMSNormConfig
from qkv.layers.residual.rezero import ReZeroConfig
from qkv.layers.residual.sandwich import SandwichNormConfig

AnyResidual = Annotated[ResidualConfig, residuals]

__all__ = [
    "AnyResidual",
    "Connection",
    "DeepNormConfig",
    "NormedResidual",
    "Place",
    "PostNormConfig",
    "PreNorm",
    "PreNormConfig",
    "PreRMSNormConfig",
    "ReZeroConfig",
    "Residual",
    "ResidualConfig",
    "SandwichNormConfig",
    "Sublayer",
    "residuals",
]
