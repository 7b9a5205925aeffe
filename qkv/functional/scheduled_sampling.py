"""Scheduled sampling (Bengio et al. 2015): how often the decoder reads the gold token, and how its input is mixed.

The schedules count updates from 0, where the decoder reads gold tokens only, or nearly so.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def linear_gold(n: int, slope: float, floor: float = 0.0) -> float:
    """max(floor, 1 - slope · n)"""
    return max(floor, 1.0 - slope * n)


def exponential_gold(n: int, k: float, floor: float = 0.0) -> float:
    """max(floor, kⁿ), with k < 1."""
    return max(floor, math.pow(k, n))


def inverse_sigmoid_gold(n: int, k: float, floor: float = 0.0) -> float:
    """max(floor, k / (k + exp(n / k))), with k ≥ 1: about 1 at first, one half at n = k ln k."""
    return max(floor, k / (k + math.exp(min(n / k, 700.0))))


def predicting(chosen: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """The positions whose predictions stand at the `chosen` positions of the decoder's input: each one before its own.

    The first position, the start symbol, is never chosen. Both have the same number of True, in the same order.
    """
    return torch.nn.functional.pad(chosen[:, 1:], (0, 1))


def mixed(tgt_in: Int[Tensor, "B T"], chosen: Bool[Tensor, "B T"], tokens: Int[Tensor, " N"]) -> Int[Tensor, "B T"]:
    """`tgt_in` with the N `chosen` positions, in row-major order, replaced by `tokens`."""
    return tgt_in.masked_scatter(chosen, tokens)


def most_probable(logits: Float[Tensor, "N V"], k: int) -> Float[Tensor, "N V"]:
    """The `k` largest of each row, and those equal to the smallest of them; the rest becomes -inf. 0: all."""
    if not 0 < k < logits.shape[-1]:
        return logits
    least = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < least, -torch.inf)
