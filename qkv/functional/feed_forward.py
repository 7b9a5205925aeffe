"""The position-wise feed-forward network: the same two products at every position. Weights are [out, in]."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from qkv.core.shapes import Hidden

WeightIn = Float[Tensor, "F D"]
BiasIn = Float[Tensor, " F"]
WeightOut = Float[Tensor, "D F"]
BiasOut = Float[Tensor, " D"]


def feed_forward_relu(x: Hidden, w1: WeightIn, b1: BiasIn | None, w2: WeightOut, b2: BiasOut | None) -> Hidden:
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2  (equation 2)."""
    return F.linear(torch.relu(F.linear(x, w1, b1)), w2, b2)


def feed_forward_gelu(x: Hidden, w1: WeightIn, b1: BiasIn | None, w2: WeightOut, b2: BiasOut | None) -> Hidden:
    """FFN(x) = GELU(x W_1 + b_1) W_2 + b_2, GELU(z) = z Φ(z) (Hendrycks and Gimpel 2016)."""
    return F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)


def feed_forward_swiglu(x: Hidden, w_gate: WeightIn, w_up: WeightIn, w_down: WeightOut) -> Hidden:
    """FFN(x) = (SiLU(x W_gate) ⊙ x W_up) W_down, SiLU(z) = z σ(z), no biases (Shazeer 2020)."""
    return F.linear(F.silu(F.linear(x, w_gate)) * F.linear(x, w_up), w_down)
