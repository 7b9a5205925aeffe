"""Coverage as an input of attention (See et al. 2017): the score of a key also sees how much it was attended to."""

from typing import Literal

import torch
from torch import Tensor, nn

from qkv.functional.attention import coverage_scores, masked_softmax
from qkv.layers.attention.base import attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.cross.base import CarryingAttention, CrossConfig
from qkv.layers.positions.base import Positions


@attentions.register
class CoverageAttentionConfig(CrossConfig):
    """Additive attention that also sees how much each key has been attended to so far (See et al. 2017)."""

    kind: Literal["coverage"] = "coverage"

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "CoverageAttention":
        return CoverageAttention(d_model, num_heads, dropout)


class CoverageAttention(CarryingAttention):
    """a_i = softmax_j v·tanh(q_i + k_j + w c_ij) with c_i = Σ_{i' < i} a_i', for each head.

    It starts as additive attention, w = 0. The weights of an output need those of all outputs before it, so they are
    computed one after the other, in training too; everything else of a layer is computed for all outputs at once.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, dropout)
        self.coverage = nn.Parameter(torch.zeros(num_heads, self.head_width))
        self.score = nn.Parameter(torch.empty(num_heads, self.head_width))
        nn.init.normal_(self.score, std=self.head_width**-0.5)

    def carried_width(self, keys: int) -> int:
        return keys

    def first(self, q: Tensor, k: Tensor) -> Tensor:
        return q.new_zeros(*k.shape[:3])

    def follow(self, before: Tensor, q: Tensor, k: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """The sum of all weights so far is carried."""
        real = None if context.keep is None else context.keep[:, None, None]
        rows, sums = [], []
        for query in q.unbind(2):
            scores = coverage_scores(query, k, before, self.coverage, self.score)
            weights = masked_softmax(scores[:, :, None], real)[:, :, 0]
            before = (before + weights).to(q.dtype)
            rows.append(weights)
            sums.append(before)
        return torch.stack(rows, dim=2), torch.stack(sums, dim=2)
