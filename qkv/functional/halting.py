"""Adaptive computation time (Graves 2016): each position decides how many steps it takes."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class HaltingWeights(NamedTuple):
    """The weight of each step, the number of steps taken, and the remainder R."""

    weights: Float[Tensor, "*batch steps"]
    steps: Int[Tensor, "*batch"]
    remainder: Float[Tensor, "*batch"]


def halting_weights(probabilities: Float[Tensor, "*batch steps"], epsilon: float) -> HaltingWeights:
    """N = first t with p_1 + ... + p_t > 1 - epsilon, or the last t;  R = 1 - (p_1 + ... + p_{N-1})

    weights: p_1, ..., p_{N-1}, R, 0, ..., 0. They sum to 1 also where the last step comes before the threshold.
    """
    most = probabilities.shape[-1]
    before = probabilities.cumsum(dim=-1) - probabilities
    enough = before + probabilities > 1 - epsilon
    enough[..., -1] = True
    last = enough.int().argmax(dim=-1, keepdim=True)
    remainder = 1 - before.gather(-1, last)
    step = torch.arange(most, device=probabilities.device)
    weights = torch.where(step < last, probabilities, torch.where(step == last, remainder, 0.0))
    return HaltingWeights(weights, last.squeeze(-1) + 1, remainder.squeeze(-1))
