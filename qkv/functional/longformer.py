"""Longformer attention (Beltagy et al. 2020) as it is defined: two dense attentions and a choice between them."""

from typing import NamedTuple

from jaxtyping import Bool
from torch import Tensor

from qkv.functional.attention import scaled_dot_product
from qkv.shapes import Bias, Heads, Mask


class Projected(NamedTuple):
    """Queries, keys and values of one set of projections, [B, H, n, E] each."""

    queries: Heads
    keys: Heads
    values: Heads


def longformer(
    near: Projected,
    far: Projected,
    window: Mask,
    is_global: Bool[Tensor, "B n"],
    keep: Bool[Tensor, "B n"],
    near_bias: Bias | None = None,
    far_bias: Bias | None = None,
) -> Heads:
    """i ∉ G: one softmax over window(i) ∪ G with the projections `near`; i ∈ G: over everything, with `far`.

    G are the real tokens of `is_global`. A union of masks counts each key once.
    """
    chosen, real = (is_global & keep)[:, None], keep[:, None, None]
    from_near, _ = scaled_dot_product(*near, (window | chosen[:, :, None]) & real, near_bias)
    from_far, _ = scaled_dot_product(*far, real, far_bias)
    return from_far.where(chosen[..., None], from_near)
