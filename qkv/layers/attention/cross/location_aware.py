"""Location-aware attention (Chorowski et al. 2015): the score of a key also sees where the last output attended."""

from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from qkv.functional.attention import location_aware_scores, location_features, masked_softmax, near_largest, near_median
from qkv.layers.attention.base import attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.cross.base import CarryingAttention, CrossConfig
from qkv.layers.positions.base import Positions


@attentions.register
class LocationAwareConfig(CrossConfig):
    """Additive attention that also sees the weights of the output before, by a convolution (Chorowski et al. 2015)."""

    kind: Literal["location_aware"] = "location_aware"
    filters: int = Field(default=8, ge=1, le=1 << 16)
    """Filters of the convolution, for each head."""
    width: int = Field(default=11, ge=1, le=1 << 16)
    """Width of a filter in keys, an odd number: it sees (width - 1) / 2 keys to each side."""

    window: int | None = Field(default=None, ge=1)
    """Keys to each side of the last output's median key that an output may attend to: as many for a long source as
    for a short one. Default: all."""

    start: Literal["first", "anywhere"] = "first"
    """Where the first output attends: around the first key, or anywhere, by content alone. Then the window is around
    the key with the largest weight in place of the median, which many small weights would move."""

    @field_validator("width")
    @classmethod
    def _has_a_middle(cls, width: int) -> int:
        return odd(width)

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "LocationAwareAttention":
        return LocationAwareAttention(d_model, num_heads, dropout, self.filters, self.width, self.window, self.start)


def odd(width: int) -> int:
    """`width`, if a filter of this width has a middle; else raises ValueError."""
    if width % 2 == 0:
        raise ValueError(f"must be odd, so that a filter has a middle: {width - 1} or {width + 1}")
    return width


class LocationAwareAttention(CarryingAttention):
    """a_i = softmax_j v·tanh(q_i + k_j + U f_ij) with f_i = F * a_i-1; the first output begins at the first key.

    With a `window`, j is at most so far from the median of a_i-1 (section 2.3 of the paper). A softmax over ever more
    keys gives ever less to each; a window keeps their number.

    With `start="anywhere"`, a_0 = 0: the first output attends by content to all keys, so that a head can begin at the
    end, or after an operator. The median of so many weights may be far from the largest, so the window is around that.

    The weights of an output need those of the one before, so they are computed one after the other, in training too;
    everything else of a layer is computed for all outputs at once.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        filters: int = 8,
        width: int = 11,
        window: int | None = None,
        start: Literal["first", "anywhere"] = "first",
    ) -> None:
        super().__init__(d_model, num_heads, dropout)
        self.window, self.start = window, start
        self.filters = nn.Parameter(torch.empty(num_heads, filters, width))
        self.location = nn.Parameter(torch.empty(num_heads, filters, self.head_width))
        self.score = nn.Parameter(torch.empty(num_heads, self.head_width))
        nn.init.normal_(self.filters, std=width**-0.5)
        nn.init.normal_(self.location, std=filters**-0.5)
        nn.init.normal_(self.score, std=self.head_width**-0.5)

    def carried_width(self, keys: int) -> int:
        return keys

    def first(self, q: Tensor, k: Tensor) -> Tensor:
        weights = q.new_zeros(*k.shape[:3])
        if self.start == "first":
            weights[..., 0] = 1
        return weights

    def follow(self, before: Tensor, q: Tensor, k: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """The weights themselves are carried."""
        rows = []
        for query in q.unbind(2):
            features = location_features(before, self.filters.to(before.dtype))
            scores = location_aware_scores(query, k, features, self.location, self.score)
            before = masked_softmax(scores[:, :, None], self._near(before, context))[:, :, 0]
            rows.append(before)
        weights = torch.stack(rows, dim=2)
        return weights, weights.to(q.dtype)

    def _near(self, before: Tensor, context: AttentionContext) -> Tensor | None:
        """[B, H|1, 1, K], the real keys around the place of these weights [B, H, K]."""
        real = None if context.keep is None else context.keep[:, None, None]
        if self.window is None:
            return real
        around = near_median if self.start == "first" else near_largest
        near = around(before, self.window)[:, :, None]
        return near if real is None else near & real
