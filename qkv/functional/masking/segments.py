"""Segments of a text as in BERT (Devlin et al. 2019)."""

from jaxtyping import Int
from torch import Tensor


def segment_ids(tokens: Int[Tensor, "B S"], end: int, segments: int) -> Int[Tensor, "B S"]:
    """The segment of each token, from 0: the number of `end` tokens before it, at most `segments` - 1."""
    ends = (tokens == end).long()
    return (ends.cumsum(dim=1) - ends).clamp_max(segments - 1)
