"""Sinusoidal positions: a wave of its own frequency for every pair of channels."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def sinusoidal(
    pos: Int[Tensor, "*shape"], d_model: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape {d_model}"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)),  PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))  (section 3.5).

    Computed in float64 whatever the result's type: in float32 the angle of a far position is a few
    thousandths off. An odd last channel is 0.
    """
    pairs = d_model // 2
    exponent = torch.arange(pairs, dtype=torch.float64, device=pos.device) * 2 / d_model
    angle = pos.double()[..., None] * 10000.0**-exponent
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
    return _fill_up(waves, d_model).to(dtype)


def sinusoidal_half_split(
    pos: Int[Tensor, "*shape"], d_model: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape {d_model}"]:
    """All sines, then all cosines, with ω_i = 10000^(-i/(d_model/2 - 1)): tensor2tensor's and fairseq's form.

    The frequencies differ from the paper's, so this is not a permutation of `sinusoidal`; weights
    trained with one form need that form.
    """
    pairs = d_model // 2
    exponent = torch.arange(pairs, dtype=torch.float64, device=pos.device) / max(pairs - 1, 1)
    angle = pos.double()[..., None] * 10000.0**-exponent
    waves = torch.cat([angle.sin(), angle.cos()], dim=-1)
    return _fill_up(waves, d_model).to(dtype)


def _fill_up(waves: Tensor, d_model: int) -> Tensor:
    return torch.nn.functional.pad(waves, (0, d_model - waves.shape[-1]))
