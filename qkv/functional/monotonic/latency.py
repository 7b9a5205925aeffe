"""How far an output that is written while its source is still being read stays behind it.

`delays` g(t) is the number of source tokens that were read before target token t was written, t = 1 ... |Y|.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Delays = Float[Tensor, "*batch T"]
Lag = Float[Tensor, "*batch"]


def average_lagging(delays: Delays, src_length: int, tgt_length: int | None = None) -> Lag:
    """AL = 1/τ Σ_t≤τ g(t) - (t - 1) / γ with γ = |Y| / |X|, τ the first t with g(t) = |X| (Ma et al. 2019).

    An ideal output that needs nothing ahead of it has 1 or less, one that waits for the end of the source has |X|.
    `tgt_length` is |Y| where it is not the number of delays.
    """
    ideal = _ideal(delays, src_length, tgt_length)
    before_the_end = (delays < src_length).cumprod(dim=-1)
    counted = torch.cat([torch.ones_like(before_the_end[..., :1]), before_the_end[..., :-1]], dim=-1)
    return ((delays - ideal) * counted).sum(dim=-1) / counted.sum(dim=-1)


def differentiable_average_lagging(delays: Delays, src_length: int, tgt_length: int | None = None) -> Lag:
    """DAL = 1/|Y| Σ_t g'(t) - (t - 1) / γ with g'(t) = max(g(t), g'(t - 1) + 1 / γ) (Arivazhagan et al. 2019).

    Each written token takes at least 1 / γ, so what was lost by waiting is not made up for by a burst.
    """
    ideal = _ideal(delays, src_length, tgt_length)
    # g'(t) - (t - 1) / γ is the greatest g(s) - (s - 1) / γ so far.
    return (delays - ideal).cummax(dim=-1).values.mean(dim=-1)


def expected_delays(alignment: Float[Tensor, "*batch T S"]) -> Delays:
    """g(t) = Σ_j j α_tj, j = 1 ... |X|: the mean of the delays under monotonic attention, with a gradient."""
    places = torch.arange(1, alignment.shape[-1] + 1, device=alignment.device, dtype=alignment.dtype)
    return alignment @ places


def _ideal(delays: Tensor, src_length: int, tgt_length: int | None) -> Tensor:
    """(t - 1) / γ"""
    steps = torch.arange(delays.shape[-1], device=delays.device, dtype=delays.dtype)
    return steps * src_length / (tgt_length or delays.shape[-1])
