"""What an empty position of a canvas begins with: which source position it copies."""

import torch
from jaxtyping import Int
from torch import Tensor

Lengths = Int[Tensor, " B"]
Indices = Int[Tensor, "B T"]


def uniform_copy(src_lengths: Lengths, tgt_lengths: Lengths, width: int) -> Indices:
    """round(t (|X| - 1) / max(|Y| - 1, 1)), half to even: from the first to the last, evenly (Gu et al. 2018).

    Positions behind |Y| copy the last one, so that every index is a position of the source.
    """
    t = torch.arange(width, device=src_lengths.device)
    step = (src_lengths - 1).double() / (tgt_lengths - 1).clamp(min=1)
    return _inside((t * step[:, None]).round().long(), src_lengths)


def repetition(src_lengths: Lengths, tgt_lengths: Lengths, width: int) -> Indices:
    """floor(t |X| / |Y|): with |Y| = s |X| each source position stands s times, one after the other."""
    t = torch.arange(width, device=src_lengths.device)
    return _inside(t * src_lengths[:, None] // tgt_lengths[:, None].clamp(min=1), src_lengths)


def _inside(indices: Tensor, src_lengths: Tensor) -> Tensor:
    return torch.minimum(indices, (src_lengths - 1).clamp(min=0)[:, None])
