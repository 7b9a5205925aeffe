"""What the decoder's layers attend to: one file a wiring."""

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
