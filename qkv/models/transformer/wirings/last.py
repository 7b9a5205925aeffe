"""The paper's wiring: every decoder layer attends to the encoder's result."""

from collections.abc import Callable, Sequence
from typing import Literal

from torch import Tensor, nn

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

    last_only = True

    def __init__(self, decoder_layers: int) -> None:
        super().__init__()
        self.decoder_layers = decoder_layers

    def expose(self, states: list[Tensor]) -> Tensor:
        return states[-1]

    def memories(self, memory: Tensor) -> Sequence[Tensor]:
        return [memory] * self.decoder_layers
