"""MoChA (Chiu and Raffel 2018): monotonic attention, and soft attention to the keys that end at its stop."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from qkv.functional.attention import scaled_dot_scores
from qkv.functional.monotonic.stops import chunkwise
from qkv.layers.attention.base import attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.cross.monotonic import MonotonicAttention, StoppingConfig
from qkv.layers.positions.base import Positions


@attentions.register
class MochaConfig(StoppingConfig):
    """Each head stops at one key and attends softly to the last few keys up to it (Chiu and Raffel 2018)."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"chunk": 3}

    kind: Literal["mocha"] = "mocha"
    chunk: int = Field(default=4, ge=1, le=1000)
    """Keys that a head attends to, the one of its stop included."""

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "MochaAttention":
        return MochaAttention(d_model, num_heads, dropout, self.chunk, self.start_bias, self.noise)


class MochaAttention(MonotonicAttention):
    """β_ij = Σ_k α_ik softmax(u_i,k-w+1 ... u_ik)_j: the stops α of monotonic attention, softened over w keys.

    One half of each head's query and key makes the energies of the stop, the other half the scores u.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        chunk: int = 4,
        start_bias: float = -1.0,
        noise: float = 1.0,
    ) -> None:
        super().__init__(d_model, num_heads, dropout, start_bias, noise)
        if self.head_width < 2:
            raise ValueError(f"num_heads ({num_heads}) must be at most half of d_model ({d_model})")
        self.chunk = chunk
        self.stop_width = self.head_width // 2

    def energies(self, q: Tensor, k: Tensor) -> Tensor:
        return super().energies(q[..., : self.stop_width], k[..., : self.stop_width])

    def align(self, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        alignment = super().align(q, k, context)
        return self._soften(alignment, q, k) if self.training else alignment

    def follow(self, before: Tensor, q: Tensor, k: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        stops, carried = super().follow(before, q, k, context)
        return self._soften(stops, q, k), carried

    def _soften(self, alignment: Tensor, q: Tensor, k: Tensor) -> Tensor:
        scores = scaled_dot_scores(q[..., self.stop_width :], k[..., self.stop_width :])
        return chunkwise(alignment, scores.to(alignment.dtype), self.chunk)
