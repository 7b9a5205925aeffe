"""Relative positions of Shaw et al. (2018): a learned vector for each distance, added to keys and to values."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from qkv.functional.positions import clipped, distances
from qkv.kernels.positions import shaw_context, shaw_scores
from qkv.layers.positions.base import Positions, PositionsConfig, positions


@positions.register
class ShawConfig(PositionsConfig):
    """A learned vector per distance, on keys and values, separate for each layer; any length."""

    sees = "distances"
    on_logits = True
    renamed: ClassVar = {"reach": "max_distance"}
    kind: Literal["shaw"] = "shaw"
    max_distance: int = Field(default=16, ge=0, le=1 << 20)
    """Larger distances are clipped to this one (k of the paper)."""

    def build(self, d_model: int, num_heads: int, causal: bool) -> "ShawStack":
        return ShawStack(d_model // num_heads, self.max_distance)


class ShawStack(Positions):
    """Adds nothing to the embeddings; each layer has its own tables."""

    def __init__(self, head_width: int, max_distance: int) -> None:
        super().__init__()
        self.head_width, self.max_distance = head_width, max_distance

    def for_layer(self) -> "Shaw":
        return Shaw(self.head_width, self.max_distance)


class Shaw(Positions):
    """Σ_j softmax_j(q_i · (k_j + a^K_c) / √d_k) (v_j + a^V_c) with c = clip(j - i, -m, m) + m, m = `max_distance`."""

    has_value_term = True

    def __init__(self, head_width: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.keys = nn.Parameter(torch.empty(2 * max_distance + 1, head_width))
        self.values = nn.Parameter(torch.empty(2 * max_distance + 1, head_width))
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return shaw_scores(q, self.keys, clipped(distances(q_pos, k_pos), self.max_distance))

    def value_term(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return shaw_context(weights, self.values, clipped(distances(q_pos, k_pos), self.max_distance))
