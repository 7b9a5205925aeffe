"""The equations of end-to-end memory networks (Sukhbaatar et al. 2015)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from qkv.functional.attention import dot_scores, masked_softmax


def word_order(place: Float[Tensor, "*n"], length: Float[Tensor, "*n"], width: int) -> Float[Tensor, "*n D"]:
    """l_k = (1 - j / J) - (k / d) (1 - 2 j / J) for word j of a sentence of J words, both counted from 1, k = 1 ... d.

    The sum of the words of a sentence, each times its l, depends on their order.
    """
    share = (place / length.clamp_min(1)).unsqueeze(-1)
    k = torch.arange(1, width + 1, device=place.device, dtype=place.dtype) / width
    return (1 - share) - k * (1 - 2 * share)


def recall(
    u: Float[Tensor, "B Q D"], m: Float[Tensor, "B N D"], c: Float[Tensor, "B N D"], keep: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B Q D"], Float[Tensor, "B Q N"]]:
    """o = Σ_i p_i c_i with p = softmax(u·m): attention with one head, query u, keys m and values c; and p."""
    weights = masked_softmax(dot_scores(u[:, None], m[:, None]), keep[:, None, None])[:, 0]
    return weights.to(c.dtype) @ c, weights


def linear_recall(
    u: Float[Tensor, "B Q D"], m: Float[Tensor, "B N D"], c: Float[Tensor, "B N D"], keep: Bool[Tensor, "B N"]
) -> tuple[Float[Tensor, "B Q D"], Float[Tensor, "B Q N"]]:
    """The same without softmax, p = u·m, by which training may start."""
    weights = dot_scores(u[:, None], m[:, None])[:, 0] * keep[:, None]
    return weights @ c, weights
