"""Relative positions of T5 (Raffel et al. 2020): a learned bias per head and bucket of distances."""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from qkv.functional.positions import clipped, distances, t5_buckets
from qkv.kernels.flex_bias import OfDistance
from qkv.kernels.positions import t5_bias
from qkv.layers.positions.base import Positions, PositionsConfig, SomeHeads, positions


@positions.register
class T5Config(PositionsConfig):
    """A learned bias per bucket of distances, one table for all layers of a stack; any length."""

    sees = "distances"
    on_logits = True
    kind: Literal["t5"] = "t5"
    buckets: int = Field(default=32, ge=4, le=1 << 20, multiple_of=4)
    """Biases per head; in the encoder, half are for keys before the query and half for keys after it."""
    longest: int = Field(default=128, ge=2, le=1 << 20)
    """All distances from here on share the last bucket."""

    @model_validator(mode="after")
    def _near_ones_have_their_own(self) -> "T5Config":
        if self.longest <= self.buckets // 2:
            raise ValueError(f"longest ({self.longest}) must be above half of buckets ({self.buckets})")
        return self

    def build(self, d_model: int, num_heads: int, causal: bool) -> "T5":
        return T5(d_model, num_heads, causal, self.buckets, self.longest)


class T5(Positions):
    """softmax(Q Kᵀ / √d_k + b) with b_h(i, j) = table[bucket(j - i), h]; initialised from N(0, 1 / d_model)."""

    bucket_of: Tensor

    def __init__(self, d_model: int, num_heads: int, causal: bool, buckets: int = 32, longest: int = 128) -> None:
        super().__init__()
        self.longest = longest
        self.weight = nn.Parameter(torch.empty(buckets, num_heads))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        every = torch.arange(-longest, longest + 1)[None, None]
        self.register_buffer("bucket_of", t5_buckets(every, causal, buckets, longest).flatten(), persistent=False)

    def for_heads(self, heads: Sequence[int]) -> Positions:
        return SomeHeads(self, heads)

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        bucket = self.bucket_of[clipped(distances(q_pos, k_pos), self.longest)]
        return t5_bias(self.weight, bucket).to(q.dtype)

    def bias_of_distance(self) -> OfDistance:
        table, longest = self.weight[self.bucket_of].T.contiguous(), self.longest
        return lambda head, distance: table[head, distance.clamp(-longest, longest) + longest]
