"""The expected cost of drawn outputs (Shen et al. 2016)."""

from jaxtyping import Float
from torch import Tensor


def expected_risk(log_probs: Float[Tensor, " N"], costs: Float[Tensor, " N"], sharpness: float) -> Float[Tensor, ""]:
    """R = Σ_n Q_n cost_n, with Q_n = p_n^sharpness / Σ_m p_m^sharpness over the outputs that were drawn.

    Args:
        log_probs: log p_n of each output; a constant added to all of them changes nothing.
        costs: How bad each output is.
        sharpness: The larger, the more the most probable outputs count.
    """
    return (sharpness * log_probs).softmax(dim=0).dot(costs)
