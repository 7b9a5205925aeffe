"""Gates that can close: the hard concrete distribution (Louizos et al. 2018), on heads as in Voita et al. (2019)."""

import math

from jaxtyping import Float
from torch import Tensor

LOW, HIGH = -0.1, 1.1
"""The sigmoid is stretched to this interval and clipped to [0, 1], so that 0 and 1 have a probability."""
TEMPERATURE = 0.33


def _stretched(s: Float[Tensor, " H"]) -> Float[Tensor, " H"]:
    """clip(1.2 s - 0.1, 0, 1)"""
    return (s * (HIGH - LOW) + LOW).clamp(0.0, 1.0)


def drawn_gates(
    log_a: Float[Tensor, " H"], u: Float[Tensor, " H"], temperature: float = TEMPERATURE
) -> Float[Tensor, " H"]:
    """g = clip(1.2 s - 0.1, 0, 1) with s = σ((ln u - ln(1 - u) + log a) / τ); u is uniform in (0, 1)."""
    return _stretched(((u.log() - (-u).log1p() + log_a) / temperature).sigmoid())


def settled_gates(log_a: Float[Tensor, " H"]) -> Float[Tensor, " H"]:
    """The gates at test: clip(1.2 σ(log a) - 0.1, 0, 1)"""
    return _stretched(log_a.sigmoid())


def open_probability(log_a: Float[Tensor, " H"], temperature: float = TEMPERATURE) -> Float[Tensor, " H"]:
    """P(g ≠ 0) = σ(log a - τ ln(0.1 / 1.1))"""
    return (log_a - temperature * math.log(-LOW / HIGH)).sigmoid()
