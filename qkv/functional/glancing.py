"""Glancing (Qian et al. 2021): the worse a first guess, the more of the target is shown to a second one."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def glance_counts(wrong: Bool[Tensor, "B T"], ratio: float) -> Int[Tensor, " B"]:
    """⌊λ · hamming(Y, Ŷ) + ½⌋ positions of each row are shown."""
    return (ratio * wrong.sum(dim=1).double() + 0.5).floor().long()


def choose_some(
    eligible: Bool[Tensor, "B T"], counts: Int[Tensor, " B"], generator: torch.Generator
) -> Bool[Tensor, "B T"]:
    """`counts` of the eligible positions of each row, every set of them equally likely; all if they are fewer."""
    drawn = torch.rand(eligible.shape, generator=generator, device=eligible.device).masked_fill(~eligible, 2.0)
    ranks = drawn.argsort(dim=1).argsort(dim=1)
    return eligible & (ranks < counts[:, None])
