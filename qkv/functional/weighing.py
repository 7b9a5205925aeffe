"""From scores to weights that are exactly zero for weak keys (see `masked_softmax` for weights that never are).

Both are max(0, z - τ)^p with the one threshold τ that makes a row sum to 1. A key far enough below the best one
is out: `FAR` is such a distance in either form, and stands for keys that the mask forbids. Which keys are in (the
support) is found by sorting and has no gradient; τ is then a smooth function of their scores.
"""

import torch
from torch import Tensor

from qkv.shapes import AttentionWeights, Mask

FAR = -3.0


def sparsemax(scores: AttentionWeights, mask: Mask | None = None) -> AttentionWeights:
    """max(0, z_j - τ): the point of the simplex nearest to z (Martins and Astudillo 2016)."""
    z = _below_the_best(scores, mask)
    ranked, count = _ranked(z)
    support = z >= _last(ranked, 1 + count * ranked > ranked.cumsum(-1))
    size = support.sum(-1, keepdim=True)
    threshold = ((z * support).sum(-1, keepdim=True) - 1) / size
    # The support decides where the gradient goes: `clamp` would also pass it to a key that stands at the threshold.
    above = (z - threshold) * support
    below_zero_by_rounding = above.detach().clamp_max(0)
    return _only_allowed(above - below_zero_by_rounding, mask)


def entmax(scores: AttentionWeights, mask: Mask | None = None) -> AttentionWeights:
    """max(0, z_j / 2 - τ)²: 1.5-entmax, half-way between softmax and sparsemax (Peters et al. 2019)."""
    z = _below_the_best(scores / 2, mask)
    ranked, count = _ranked(z)
    mean = ranked.cumsum(-1) / count
    spread = ranked.square().cumsum(-1) - count * mean.square()
    support = z >= _last(ranked, mean - ((1 - spread) / count).clamp_min(0).sqrt() <= ranked)
    size = support.sum(-1, keepdim=True)
    mean = (z * support).sum(-1, keepdim=True) / size
    spread = ((z - mean) * support).square().sum(-1, keepdim=True)
    threshold = mean - ((1 - spread) / size).sqrt()
    return _only_allowed((z - threshold).clamp_min(0).square(), mask)


def _below_the_best(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores minus the best of their row, in float32 or wider: weights do not change if all scores move."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is None:
        return wide - wide.amax(-1, keepdim=True).detach()
    best = wide.detach().masked_fill(~mask, torch.finfo(wide.dtype).min).amax(-1, keepdim=True)
    return (wide - best).masked_fill(~mask, FAR)


def _ranked(z: Tensor) -> tuple[Tensor, Tensor]:
    """The scores from the best down, and 1, 2, 3, ..."""
    ranked = z.detach().sort(dim=-1, descending=True).values
    return ranked, torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)


def _last(ranked: Tensor, inside: Tensor) -> Tensor:
    """The lowest score of the support; `inside` is True for a first part of each row."""
    return ranked.gather(-1, inside.sum(-1, keepdim=True) - 1)


def _only_allowed(weights: Tensor, mask: Tensor | None) -> Tensor:
    """A row without an allowed key gets zeros."""
    return weights if mask is None else weights * mask
