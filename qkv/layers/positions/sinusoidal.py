"""Sinusoidal positions, section 3.5 of the paper; any length."""

from typing import Literal

from torch import Tensor

from qkv.functional.positions import sinusoidal
from qkv.layers.positions.base import Positions, PositionsConfig, positions


@positions.register
class SinusoidalConfig(PositionsConfig):
    """Sines and cosines of the paper; no limit on the length."""

    kind: Literal["sinusoidal"] = "sinusoidal"

    def build(self, d_model: int) -> "Sinusoidal":
        return Sinusoidal(d_model)


class Sinusoidal(Positions):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + sinusoidal(pos, self.d_model, x.dtype)
