"""Location-aware attention of a recurrent decoder (Chorowski et al. 2015)."""

from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from qkv.functional.attention import location_aware_scores, location_features, masked_softmax, near_median
from qkv.layers.attention.cross.location_aware import odd
from qkv.layers.recurrent.attention import FollowingAttention, RecurrentAttentionConfig, recurrent_attentions


@recurrent_attentions.register
class LocationAwareRecurrentConfig(RecurrentAttentionConfig):
    """By content and by where the step before attended (Chorowski et al. 2015)."""

    kind: Literal["location_aware"] = "location_aware"
    filters: int = Field(default=8, ge=1, le=1 << 16)
    """Filters of the convolution over the weights of the step before."""
    width: int = Field(default=11, ge=1, le=1 << 16)
    """Width of a filter in source tokens, an odd number."""
    window: int | None = Field(default=None, ge=1)
    """Source tokens to each side of the last step's median that a step may attend to. Default: all."""

    @field_validator("width")
    @classmethod
    def _has_a_middle(cls, width: int) -> int:
        return odd(width)

    def build(self, d_model: int) -> "LocationAwareRecurrent":
        return LocationAwareRecurrent(d_model, self.filters, self.width, self.window)


class LocationAwareRecurrent(FollowingAttention):
    """a_tj = softmax_j v·tanh(W q + U k_j + V f_tj) with f_t = F * a_t-1; see `LocationAwareAttention`."""

    def __init__(self, d_model: int, filters: int = 8, width: int = 11, window: int | None = None) -> None:
        super().__init__(d_model)
        self.window = window
        self.filters = nn.Parameter(torch.empty(1, filters, width))
        self.location = nn.Parameter(torch.empty(1, filters, d_model))
        nn.init.normal_(self.filters, std=width**-0.5)
        nn.init.normal_(self.location, std=filters**-0.5)

    def next(self, query: Tensor, keys: Tensor, keep: Tensor, before: Tensor) -> Tensor:
        features = location_features(before, self.filters.to(before.dtype))
        scores = location_aware_scores(query, keys, features, self.location, self.score.v)
        allowed = keep if self.window is None else keep & near_median(before, self.window)
        return masked_softmax(scores[:, :, None], allowed[:, :, None])[:, :, 0]
