"""Attention with linear biases (Press et al. 2022): a penalty proportional to the distance, without parameters."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from qkv.functional.positions import alibi_bias, alibi_slopes, distances
from qkv.kernels.flex_bias import OfDistance
from qkv.layers.positions.base import Positions, PositionsConfig, SomeHeads, positions


@positions.register
class AlibiConfig(PositionsConfig):
    """Each head lowers the scores of distant keys by its own slope; any length."""

    sees = "distances"
    on_logits = True
    kind: Literal["alibi"] = "alibi"

    def build(self, d_model: int, num_heads: int, causal: bool) -> "Alibi":
        return Alibi(num_heads)


class Alibi(Positions):
    """softmax(Q Kᵀ / √d_k - m_h |i - j|)"""

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(alibi_slopes(num_heads)), persistent=False)

    def for_heads(self, heads: Sequence[int]) -> Positions:
        return SomeHeads(self, heads)

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return alibi_bias(distances(q_pos, k_pos), self.slopes.to(q.dtype))

    def bias_of_distance(self) -> OfDistance:
        slopes = self.slopes
        return lambda head, distance: -slopes[head] * distance.abs()
