"""Glancing (Qian et al. 2021): the more errors in a first pass, the more target tokens the second pass sees."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from qkv.core.devices import widest_float


def glance_counts(wrong: Bool[Tensor, "B T"], ratio: float) -> Int[Tensor, " B"]:
    """⌊λ · hamming(Y, Ŷ) + ½⌋ positions of each row are shown."""
    return (ratio * wrong.sum(dim=1).to(widest_float(wrong.device)) + 0.5).floor().long()


def choose_some(
    eligible: Bool[Tensor, "B T"], counts: Int[Tensor, " B"], generator: torch.Generator | None = None
) -> Bool[Tensor, "B T"]:
    """Sample `counts` of the eligible positions of each row, uniformly; all of them if there are fewer."""
    drawn = torch.rand(eligible.shape, generator=generator, device=eligible.device).masked_fill(~eligible, 2.0)
    ranks = drawn.argsort(dim=1).argsort(dim=1)
    return eligible & (ranks < counts[:, None])


Lengths = Int[Tensor, " B"]
Indices = Int[Tensor, "B T"]


def uniform_copy(src_lengths: Lengths, tgt_lengths: Lengths, width: int) -> Indices:
    """round(t (|X| - 1) / max(|Y| - 1, 1)), half to even: from the first to the last, evenly (Gu et al. 2018).

    Positions beyond |Y| copy the last one, so that every index is valid.
    """
    t = torch.arange(width, device=src_lengths.device)
    step = (src_lengths - 1).to(widest_float(src_lengths.device)) / (tgt_lengths - 1).clamp(min=1)
    return _inside((t * step[:, None]).round().long(), src_lengths)


def repetition(src_lengths: Lengths, tgt_lengths: Lengths, width: int) -> Indices:
    """floor(t |X| / |Y|): with |Y| = s |X| each source position is repeated s times."""
    t = torch.arange(width, device=src_lengths.device)
    return _inside(t * src_lengths[:, None] // tgt_lengths[:, None].clamp(min=1), src_lengths)


def _inside(indices: Tensor, src_lengths: Tensor) -> Tensor:
    return torch.minimum(indices, (src_lengths - 1).clamp(min=0)[:, None])
