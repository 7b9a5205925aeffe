"""Wirings: what the decoder layers attend to. One file per kind."""

from typing import Annotated

from qkv.models.transformer.wirings import concatenated, dense, last, layerwise, mix
from qkv.models.transformer.wirings.base import Wiring, WiringConfig, wirings

AnyWiring = Annotated[WiringConfig, wirings]

__all__ = [
    "AnyWiring",
    "Wiring",
    "WiringConfig",
    "concatenated",
    "dense",
    "last",
    "layerwise",
    "mix",
    "wirings",
]
