"""Copying from the source: what a token gets from the source positions that hold it.

All in the log domain. Ids may lie beyond the vocabulary: the unknown token at source position s has the id V + s, so a
distribution over a source of S positions has V + S columns.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


def log_sums_by_token(
    scores: Float[Tensor, "*batch S"],
    src: Int[Tensor, "*batch S"],
    keep: Bool[Tensor, "*batch S"],
    columns: int,
) -> Float[Tensor, "*batch columns"]:
    """log Σ_{s: x_s = v} exp(scores_s) for each id v below `columns`; -inf for an id that the source does not hold.

    The sum over the positions of one token is taken relative to the largest of them, so it never underflows.
    """
    lowest = torch.finfo(scores.dtype).min / 4
    scores = scores.masked_fill(~keep, lowest)
    shape = (*scores.shape[:-1], columns)
    largest = scores.new_full(shape, lowest).scatter_reduce(-1, src, scores.detach(), "amax")
    shifted = (scores - largest.gather(-1, src)).exp() * keep
    sums = scores.new_zeros(shape).scatter_add(-1, src, shifted)
    return (largest + sums.clamp_min(torch.finfo(scores.dtype).tiny).log()).masked_fill(sums == 0, -torch.inf)


def add_copies(
    generated: Float[Tensor, "*batch V"], copied: Float[Tensor, "*batch columns"]
) -> Float[Tensor, "*batch columns"]:
    """log(exp(generated) + exp(copied)); ids beyond the vocabulary are copied or have no probability."""
    lowest = torch.finfo(generated.dtype).min / 4
    padded = F.pad(generated, (0, copied.shape[-1] - generated.shape[-1]), value=lowest)
    both = torch.logaddexp(padded, copied.clamp_min(lowest))
    return both.masked_fill(both <= lowest / 2, -torch.inf)


def pointer_generator(
    generated: Float[Tensor, "*batch V"],
    copied: Float[Tensor, "*batch columns"],
    gate: Float[Tensor, "*batch 1"],
) -> Float[Tensor, "*batch columns"]:
    """log(p_gen softmax(generated) + (1 - p_gen) exp(copied)), p_gen = sigmoid(gate) (See et al. 2017)."""
    return add_copies(F.logsigmoid(gate) + generated.log_softmax(dim=-1), F.logsigmoid(-gate) + copied)
