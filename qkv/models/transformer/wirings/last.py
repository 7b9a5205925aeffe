"""The paper's wiring: every decoder layer attends to the encoder's result."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.stack import Stack
from qkv.models.transformer.stacks.base import Layers
from qkv.models.transformer.wirings.base import Wiring, WiringConfig, wirings


@wirings.register
class LastConfig(WiringConfig):
    """Every decoder layer attends to the last encoder layer, the paper."""

    kind: Literal["last"] = "last"

    @property
    def last_only(self) -> bool:
        return True

    def build(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> "Last":
        return Last(decoder_layers)


class Last(Wiring):
    """mem_k = S_N"""

    def __init__(self, decoder_layers: int) -> None:
        super().__init__()
        self.decoder_layers = decoder_layers

    def read(self, encoder: Stack[Any], x: Tensor, layers: Layers, context: AttentionContext) -> Tensor:
        # The states in between need not be held.
        return encoder.run(x, layers, context)

    def expose(self, states: list[Tensor]) -> Tensor:
        return states[-1]

    def memories(self, memory: Tensor) -> Sequence[Tensor]:
        return [memory] * self.decoder_layers
