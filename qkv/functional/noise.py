"""Noise on a model's inputs, never on its labels. `eligible` excludes BOS, EOS and padding.

Lengths do not change, so inputs and labels stay aligned. A generator may be given; by default it
is that of the device.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from qkv.core.devices import widest_float

Ids = Int[Tensor, "*shape"]
Eligible = Bool[Tensor, "*shape"]


def choose(eligible: Eligible, rate: float, generator: torch.Generator | None = None) -> Eligible:
    """Choose each eligible position independently with probability `rate`."""
    drawn = torch.rand(eligible.shape, generator=generator, device=eligible.device)
    return eligible & (drawn < rate)


def mask_tokens(
    ids: Ids, eligible: Eligible, rate: float, mask_id: int, generator: torch.Generator | None = None
) -> Ids:
    """x_t becomes the mask token with probability `rate`."""
    return ids.masked_fill(choose(eligible, rate, generator), mask_id)


def drop_tokens(
    ids: Ids, eligible: Eligible, rate: float, unk_id: int, generator: torch.Generator | None = None
) -> Ids:
    """Word dropout: x_t becomes the unknown token with probability `rate` (Bowman et al. 2016)."""
    return ids.masked_fill(choose(eligible, rate, generator), unk_id)


def replace_tokens(
    ids: Ids, eligible: Eligible, rate: float, low_id: int, vocab_size: int, generator: torch.Generator | None = None
) -> Ids:
    """x_t becomes a token drawn uniformly from low_id .. vocab_size - 1 with probability `rate`."""
    chosen = choose(eligible, rate, generator)
    drawn = torch.randint(low_id, vocab_size, ids.shape, generator=generator, device=ids.device, dtype=ids.dtype)
    return torch.where(chosen, drawn, ids)


def swap_tokens(
    ids: Int[Tensor, "B T"], eligible: Bool[Tensor, "B T"], distance: int, generator: torch.Generator | None = None
) -> Int[Tensor, "B T"]:
    """A random permutation of the eligible tokens in which none moves more than `distance` places (Lample 2018).

    Sort by rank + u with u drawn from [0, distance + 1).
    """
    rank = eligible.cumsum(dim=1)
    shift = torch.rand(ids.shape, generator=generator, device=ids.device, dtype=widest_float(ids.device)) * (
        distance + 1
    )
    key = (rank + shift).masked_fill(~eligible, torch.inf)
    source = key.argsort(dim=1, stable=True)
    place = (~eligible).to(torch.uint8).argsort(dim=1, stable=True)
    return torch.empty_like(ids).scatter_(1, place, ids.gather(1, source))


def predicting(chosen: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """The positions whose predictions stand at the `chosen` positions of the decoder's input: each one before its own.

    The first position, the start symbol, is never chosen. Both have the same number of True, in the same order.
    """
    return torch.nn.functional.pad(chosen[:, 1:], (0, 1))


def draw_tokens(probabilities: Float[Tensor, "*batch V"]) -> Int[Tensor, "*batch"]:
    """A token of each distribution: the largest of p / e, with e from Exp(1), is distributed as p.

    Unlike torch.multinomial it does not raise on what is not finite: training skips and counts such an update later.
    """
    return (probabilities / torch.empty_like(probabilities).exponential_()).argmax(dim=-1)
