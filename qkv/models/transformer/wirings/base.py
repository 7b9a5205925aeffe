"""Wirings: which encoder states S_0 (embedded source) to S_N (its output) the decoder layers attend to."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.layers.attention.context import AttentionContext


class Wiring(nn.Module):
    """What the encoder hands over (`expose`), once a source, and what each decoder layer makes of it (`memories`).

    The memory has one row a source token, [B, S, M], of any width M, so that it can be stored, repeated and reordered.
    """

    last_only: bool = False
    """Whether S_N is all that it needs; `expose` is not called then, and the memory is S_N."""

    def expose(self, states: list[Tensor]) -> Tensor:
        """S_0 ... S_N to memory [B, S, M]; the last one has passed the norm that follows the stack."""
        raise NotImplementedError

    def memories(self, memory: Tensor) -> Sequence[Tensor]:
        """What each decoder layer attends to, [B, S', D] each."""
        raise NotImplementedError

    def spread(self, of_positions: Tensor) -> Tensor:
        """Something said of each source position [..., S], said of each place that is attended to [..., S']."""
        return of_positions

    def look(self, cross_context: AttentionContext) -> AttentionContext:
        """What the decoder may see of the source, `spread`."""
        return cross_context

    def fold(self, weights: Tensor) -> Tensor:
        """Attention weights over places [..., S'] to weights over source positions [..., S]."""
        return weights


class LayerMemories(Wiring):
    """One memory for each decoder layer, side by side: W = M D."""

    def __init__(self, decoder_layers: int) -> None:
        super().__init__()
        self.decoder_layers = decoder_layers

    def memories(self, memory: Tensor) -> Sequence[Tensor]:
        return memory.chunk(self.decoder_layers, dim=-1)


class WiringConfig(Config):
    """Which states of the encoder the decoder's layers attend to."""

    kind: str

    @property
    def last_only(self) -> bool:
        """Whether the encoder's result is all that it needs."""
        return False

    @property
    def in_order(self) -> bool:
        """Whether the decoder attends to one key for each source token, in their order."""
        return True

    def build(
        self, encoder_layers: int, decoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]
    ) -> Wiring:
        """`build_norm` makes what a state passes that leaves the encoder (see `ResidualConfig.build_final`)."""
        raise NotImplementedError


wirings = Kinds[WiringConfig]("wiring")
