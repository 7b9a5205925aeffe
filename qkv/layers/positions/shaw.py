"""Relative positions of Shaw et al. (2018): a learned vector for each distance, added to keys and to values."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from qkv.functional.positions import clipped, distances
from qkv.kernels.positions import shaw_context, shaw_scores
from qkv.layers.positions.base import Positions, PositionsConfig, positions


@positions.register
class ShawConfig(PositionsConfig):
    """A learned vector for each distance, on keys and values, in every layer its own; any length."""

    sees = "distances"
    on_logits = True
    kind: Literal["shaw"] = "shaw"
    reach: int = Field(default=16, ge=0, le=1 << 20)
    """Distances beyond this one count as this one (k of the paper)."""

    def build(self, d_model: int, num_heads: int, causal: bool) -> "ShawStack":
        return ShawStack(d_model // num_heads, self.reach)


class ShawStack(Positions):
    """Adds nothing to the embeddings; each layer gets tables of its own."""

    def __init__(self, head_width: int, reach: int) -> None:
        super().__init__()
        self.head_width, self.reach = head_width, reach

    def for_layer(self) -> "Shaw":
        return Shaw(self.head_width, self.reach)


class Shaw(Positions):
    """softmax_j(q_i · (k_j + a^K_c) / √d_k) weighs v_j + a^V_c, with c = clip(j - i, -reach, reach) + reach."""

    has_value_term = True

    def __init__(self, head_width: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.keys = nn.Parameter(torch.empty(2 * reach + 1, head_width))
        self.values = nn.Parameter(torch.empty(2 * reach + 1, head_width))
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return shaw_scores(q, self.keys, clipped(distances(q_pos, k_pos), self.reach))

    def value_term(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        return shaw_context(weights, self.values, clipped(distances(q_pos, k_pos), self.reach))
