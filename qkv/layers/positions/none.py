"""No positions: a causal decoder can still infer them from the mask; to an encoder the input is a bag of tokens."""

from typing import Literal

from qkv.layers.positions.base import Positions, PositionsConfig, positions


@positions.register
class NoneConfig(PositionsConfig):
    """No positions."""

    sees = "nothing"
    kind: Literal["none"] = "none"

    def build(self, d_model: int, num_heads: int, causal: bool) -> Positions:
        return Positions()
