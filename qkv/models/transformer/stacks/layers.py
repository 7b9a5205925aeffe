"""The schedule of the paper: each layer once."""

from typing import Literal

from qkv.layers.positions import Positions
from qkv.models.transformer.stacks.base import LayerSchedule, StackConfig, stacks


@stacks.register
class LayersConfig(StackConfig):
    """Each layer once, in order, as in the paper."""

    kind: Literal["layers"] = "layers"

    def build(self, num_layers: int, d_model: int, positions: Positions) -> LayerSchedule:
        return LayerSchedule(num_layers)
