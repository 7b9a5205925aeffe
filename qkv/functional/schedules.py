"""Learning rates as pure functions, and the shares of gold tokens in scheduled sampling (Bengio et al. 2015).

Updates count from 1, so the first update already moves the weights.
"""

import math


def noam(update: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """factor · d_model^-0.5 · min(n^-0.5, n · warmup^-1.5)  (equation 3)."""
    decay = 1 / math.sqrt(update)
    rise = update / math.pow(warmup, 1.5) if warmup else math.inf
    return factor / math.sqrt(d_model) * min(decay, rise)


def inverse_sqrt(update: int, peak: float, warmup: int, start: float = 0.0) -> float:
    """From `start` linearly to `peak` over the warm-up, then peak · √(warmup / n)."""
    if update < warmup:
        return start + (peak - start) * update / warmup
    return peak * math.sqrt(max(warmup, 1) / update)


def constant(update: int, peak: float, warmup: int) -> float:
    """peak · min(1, n / warmup)."""
    return peak * warm_up(update, warmup)


def warm_up(update: int, warmup: int) -> float:
    """min(1, n / warmup): the factor that lets any schedule start gently."""
    return min(1.0, update / warmup) if warmup else 1.0


def linear(fraction: float, peak: float, floor: float = 0.0) -> float:
    """From `peak` straight down to `floor`; `fraction` is the part of the decay that is done, 0 to 1."""
    return floor + (peak - floor) * (1 - _clip(fraction))


def cosine(fraction: float, peak: float, floor: float = 0.0) -> float:
    """floor + (peak - floor) · (1 + cos(π · fraction)) / 2: half a wave from `peak` to `floor` (Loshchilov 2017)."""
    return floor + (peak - floor) * (1 + math.cos(math.pi * _clip(fraction))) / 2


def stable_then_linear(fraction: float, peak: float, decay: float, floor: float = 0.0) -> float:
    """`peak`, and over the last `decay` of the run straight down to `floor` (Hu et al. 2024)."""
    return linear((fraction - (1 - decay)) / decay, peak, floor)


def after_warm_up(fraction: float, warmed: float) -> float:
    """The part of the decay that is done, from 0 where the warm-up ended (at `warmed` of the run) to 1 at the end."""
    return (fraction - warmed) / (1 - warmed) if warmed < 1 else 0.0


def _clip(fraction: float) -> float:
    return min(1.0, max(0.0, fraction))


def linear_gold(n: int, slope: float, floor: float = 0.0) -> float:
    """max(floor, 1 - slope · n)"""
    return max(floor, 1.0 - slope * n)


def exponential_gold(n: int, k: float, floor: float = 0.0) -> float:
    """max(floor, kⁿ), with k < 1."""
    return max(floor, math.pow(k, n))


def inverse_sigmoid_gold(n: int, k: float, floor: float = 0.0) -> float:
    """max(floor, k / (k + exp(n / k))), with k ≥ 1: about 1 at first, one half at n = k ln k."""
    return max(floor, k / (k + math.exp(min(n / k, 700.0))))
