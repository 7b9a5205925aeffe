"""Coverage as an input of the attention of a recurrent decoder (See et al. 2017)."""

from typing import Literal

import torch
from torch import Tensor, nn

from qkv.functional.attention import coverage_scores, masked_softmax
from qkv.layers.recurrent.attention import FollowingAttention, RecurrentAttentionConfig, recurrent_attentions


@recurrent_attentions.register
class CoverageRecurrentConfig(RecurrentAttentionConfig):
    """By content and by how much of each source token has been attended to (See et al. 2017)."""

    kind: Literal["coverage"] = "coverage"

    def build(self, d_model: int) -> "CoverageRecurrent":
        return CoverageRecurrent(d_model)


class CoverageRecurrent(FollowingAttention):
    """a_tj = softmax_j v·tanh(W q + U k_j + w c_tj) with c_t = Σ_{t' < t} a_t'; see `CoverageAttention`."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.coverage = nn.Parameter(torch.zeros(1, d_model))

    def first(self, rows: int, memory: Tensor) -> Tensor:
        """Nothing has been attended to."""
        return memory.new_zeros(rows, memory.shape[1])

    def carry(self, before: Tensor, weights: Tensor) -> Tensor:
        """The sum of all weights so far."""
        return before + weights

    def next(self, query: Tensor, keys: Tensor, keep: Tensor, before: Tensor) -> Tensor:
        scores = coverage_scores(query, keys, before, self.coverage, self.score.v)
        return masked_softmax(scores[:, :, None], keep[:, :, None])[:, :, 0]
