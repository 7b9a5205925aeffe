"""Rotary positions (Su et al. 2021): queries and keys are turned, their product sees how far apart they are."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

Waves = Float[Tensor, "*#rows half"]


def rotary_angles(pos: Int[Tensor, "*shape"], width: int, base: float = 10000.0) -> Float[Tensor, "*shape half"]:
    """p θ_i with θ_i = base^(-2i / d_k), one angle for each pair of channels; in float64, as for `sinusoidal`."""
    exponent = torch.arange(width // 2, dtype=torch.float64, device=pos.device) * 2 / width
    return pos.double()[..., None] * base**-exponent


def rotate_pairs(x: Float[Tensor, "*rows E"], cos: Waves, sin: Waves) -> Float[Tensor, "*rows E"]:
    """(x_2i, x_2i+1) -> (x_2i cos - x_2i+1 sin, x_2i sin + x_2i+1 cos): the paper's pairs of neighbours."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def rotate_halves(x: Float[Tensor, "*rows E"], cos: Waves, sin: Waves) -> Float[Tensor, "*rows E"]:
    """The same angles for the pairs (x_i, x_i+d/2): `rotate_pairs` with the channels in another order, and faster."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
