"""Position schemes: one file per kind."""

from typing import Annotated

from qkv.layers.positions import alibi, learned, none, rope, shaw, sinusoidal, t5
from qkv.layers.positions.base import Positions, PositionsConfig, positions

AnyPositions = Annotated[PositionsConfig, positions]

__all__ = [
    "AnyPositions",
    "Positions",
    "PositionsConfig",
    "alibi",
    "learned",
    "none",
    "positions",
    "rope",
    "shaw",
    "sinusoidal",
    "t5",
]
