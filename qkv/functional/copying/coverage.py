"""Coverage: how much of the source the output has attended to (Tu et al. 2016; See et al. 2017)."""

import torch
from jaxtyping import Float
from torch import Tensor


def coverage(attention: Float[Tensor, "B T S"]) -> Float[Tensor, "B T S"]:
    """c_t = Σ_{t' < t} a_t': how much the output before t has attended to each source position."""
    return attention.cumsum(dim=1) - attention


def coverage_loss(attention: Float[Tensor, "B T S"]) -> Float[Tensor, "B T"]:
    """Σ_s min(a_ts, c_ts) of each step: 0 where it attends to nothing that was attended to before."""
    return torch.minimum(attention, coverage(attention)).sum(dim=-1)
