"""Consistency: two passes over the same pair should predict the same.

Every published form is one sum, with p₁ and p₂ the predictions of the two passes and q the (smoothed) target:

    L = first · CE(q, p₁) + second · CE(q, p₂) + forward · KL(p₁ ‖ p₂) + backward · KL(p₂ ‖ p₁)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.functional.smoothing import Smoothing, smoothed_cross_entropy


@dataclass(frozen=True)
class Agreement:
    """The four factors of L."""

    first: float
    second: float
    forward: float
    backward: float
    fixed: bool = False
    """The divergences take p₁ as given: they send no gradient into the first pass."""


def r_drop(alpha: float) -> Agreement:
    """½ [CE(q, p₁) + CE(q, p₂) + α · ½ (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁))] (Liang et al. 2021).

    Half of what is published, so that passes which agree give the loss of a single one; α means the same.
    """
    return Agreement(first=0.5, second=0.5, forward=alpha / 4, backward=alpha / 4)


def sim_cut(alpha: float, fixed: bool = False) -> Agreement:
    """CE(q, p₁) + α · KL(p₁ ‖ p₂), p₂ from an input with cut tokens (Gao et al. 2022).

    As published the gradient flows through both predictions; `fixed` makes p₁ the teacher of p₂.
    """
    return Agreement(first=1.0, second=0.0, forward=alpha, backward=0.0, fixed=fixed)


def kl_divergence(log_p: Float[Tensor, "N V"], log_q: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """KL(p ‖ q) = Σ_v p_v (log p_v - log q_v); a token that p rules out counts 0."""
    ruled_out = log_p == -torch.inf
    return (log_p.exp() * (log_p - log_q).masked_fill(ruled_out, 0.0)).sum(dim=1)


def consistent_cross_entropy(
    log_probs: Float[Tensor, "N 2 V"],
    targets: Int[Tensor, " N"],
    smoothing: Smoothing,
    agreement: Agreement,
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Σ_n w_n L_n, and Σ_n w_n (-log p₁(y_n)) for the perplexity, through which no gradient flows."""
    one, two = log_probs.unbind(dim=1)
    first, nll = smoothed_cross_entropy(one, targets, smoothing, weights)
    second, _ = smoothed_cross_entropy(two, targets, smoothing, weights)
    given = one.detach() if agreement.fixed else one
    apart = agreement.forward * kl_divergence(given, two) + agreement.backward * kl_divergence(two, given)
    if weights is not None:
        apart = apart * weights
    return agreement.first * first + agreement.second * second + apart.sum(), nll
