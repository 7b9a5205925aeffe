"""Patches of time series and reversible instance normalisation (Nie et al. 2023)."""

import torch
from jaxtyping import Float
from torch import Tensor

Series = Float[Tensor, "*rows time"]
PerSeries = Float[Tensor, "*rows 1"]


def window_scale(x: Series) -> tuple[PerSeries, PerSeries]:
    """The mean μ and the standard deviation σ (biased) of each window.

    Of a window that is constant up to rounding, σ is ε max|x|, so that its forecast is the constant.
    """
    mean, largest = x.mean(dim=-1, keepdim=True), x.abs().amax(dim=-1, keepdim=True)
    deviation = (x - mean).square().mean(dim=-1, keepdim=True).sqrt()
    limits = torch.finfo(x.dtype)
    # Relative to the values, not an absolute number: scaling a series scales σ, however small its unit is.
    return mean, torch.maximum(deviation, 4 * limits.eps * largest).clamp_min(limits.tiny)


def normalize_window(x: Series, mean: PerSeries, scale: PerSeries) -> Series:
    """(x - μ) / σ: instance normalisation (Kim et al. 2022, without the learned affine map)."""
    return (x - mean) / scale


def denormalize(x: Series, mean: PerSeries, scale: PerSeries) -> Series:
    """σ x + μ, which undoes `normalize_window` for what a model says of the window's future."""
    return scale * x + mean


def num_series_patches(length: int, size: int, stride: int) -> int:
    """⌊(L - P) / S⌋ + 2 patches, the last of which reaches beyond the end."""
    if not 1 <= size <= length or not 1 <= stride <= size:
        raise ValueError(f"a window of {length} values has no patches of {size} with stride {stride}")
    return (length - size) // stride + 2


def series_patches(x: Series, size: int, stride: int) -> Float[Tensor, "*rows patches size"]:
    """Patches of P values every S values, after the last value was repeated S times."""
    num_series_patches(x.shape[-1], size, stride)  # refuses sizes that do not fit
    extended = torch.cat([x, x[..., -1:].expand(*x.shape[:-1], stride)], dim=-1)
    return extended.unfold(-1, size, stride)


def seasonal_naive(x: Series, period: int, horizon: int) -> Float[Tensor, "*rows {horizon}"]:
    """ŷ_{t+h} = x_{t+h-m⌈h/m⌉}: the last period again and again; period 1 repeats the last value."""
    if x.shape[-1] < period:
        raise ValueError(f"a window of {x.shape[-1]} values does not hold a period of {period}")
    return x[..., -period:][..., torch.arange(horizon, device=x.device) % period]
