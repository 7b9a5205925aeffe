"""No positions: a causal decoder can still count what stands before a token, an encoder sees a bag of tokens."""

from typing import Literal

from qkv.layers.positions.base import Positions, PositionsConfig, positions


@positions.register
class NoneConfig(PositionsConfig):
    """Nothing tells the model where a token stands."""

    sees = "nothing"
    kind: Literal["none"] = "none"

    def build(self, d_model: int, num_heads: int, causal: bool) -> Positions:
        return Positions()
