"""Masked tokens as in BERT (Devlin et al. 2019)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

MASKED, RANDOM = 0.8, 0.1
"""Of the chosen tokens: the share that is masked, and the share that becomes a random token; the others stay."""


def choose_tokens(eligible: Bool[Tensor, "B S"], rate: float, scores: Float[Tensor, "B S"]) -> Bool[Tensor, "B S"]:
    """max(1, round(rate n)) of the n eligible positions of each row: those with the lowest scores."""
    counts = (eligible.sum(dim=1) * rate).round().clamp_min(1)
    ranks = scores.masked_fill(~eligible, 2.0).argsort(dim=1).argsort(dim=1)
    return (ranks < counts[:, None]) & eligible


def replace_chosen(
    tokens: Int[Tensor, "B S"],
    chosen: Bool[Tensor, "B S"],
    mask: int,
    others: Int[Tensor, "B S"],
    scores: Float[Tensor, "B S"],
) -> Int[Tensor, "B S"]:
    """A chosen token becomes `mask` where its score is below 0.8, that of `others` below 0.9, and stays otherwise."""
    replaced = torch.where(scores < MASKED, mask, torch.where(scores < MASKED + RANDOM, others, tokens))
    return torch.where(chosen, replaced, tokens)
