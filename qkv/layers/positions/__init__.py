"""How the model knows where a token stands: one file a scheme."""

from typing import Annotated

from qkv.layers.positions import learned, sinusoidal
from qkv.layers.positions.base import Positions, PositionsConfig, positions

AnyPositions = Annotated[PositionsConfig, positions]

__all__ = ["AnyPositions", "Positions", "PositionsConfig", "learned", "positions", "sinusoidal"]
