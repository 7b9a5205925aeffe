"""Dropout with random numbers that are cheap on a CPU.

Drawing one random float for each element costs PyTorch's CPU dropout far more than using it. Here each
element gets 16 random bits: torch's generator gives a seed, a fast generator (SFC64) expands it, and a
comparison makes the mask. So `torch.manual_seed` and the saved state of torch's generator still decide
everything, and the rate is exact to 1/65536; the scale is that of the rounded rate.
"""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from qkv.core.devices import by_hand

LEVELS = 1 << 16


def dropout(
    x: Float[Tensor, "*shape"], rate: float, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """x ⊙ m / (1 - rate), each m independently 0 with probability `rate`, otherwise 1."""
    if rate == 0:
        return x
    if not by_hand(x) and generator is None:
        return F.dropout(x, rate)
    return x * dropout_mask(x, rate, generator)


def dropout_mask(
    like: Float[Tensor, "*shape"], rate: float, generator: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """m / (1 - rate) in the shape and type of `like`.

    Floats and not bytes: comparing straight into floats and multiplying two float tensors took half the
    time of comparing into bytes and multiplying floats with bytes.
    """
    dropped = round(rate * LEVELS)
    if dropped >= LEVELS:
        return torch.zeros_like(like)
    mask = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    torch.ge(_random_words(like, generator), dropped - LEVELS // 2, out=mask)
    return mask.mul_(LEVELS / (LEVELS - dropped))


def _random_words(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """As many 16-bit integers as `like` has elements, in its shape."""
    seed = torch.empty((), dtype=torch.int64).random_(generator=generator)
    words = np.random.SFC64(int(seed)).random_raw(-(-like.numel() // 4)).view(np.int16)
    return torch.from_numpy(words[: like.numel()]).view(like.shape).to(like.device)
