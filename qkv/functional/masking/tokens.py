"""Masked tokens as in BERT (Devlin et al. 2019)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

MASKED, RANDOM = 0.8, 0.1
"""Of the chosen tokens: the share that is masked, and the share that becomes a random token; the others stay."""


def chosen_counts(eligible: Int[Tensor, " B"], rate: float) -> Int[Tensor, " B"]:
    """max(1, round(rate n)) of n eligible tokens."""
    return (eligible * rate).round().clamp_min(1).long()


def choose_tokens(eligible: Bool[Tensor, "B S"], rate: float, scores: Float[Tensor, "B S"]) -> Bool[Tensor, "B S"]:
    """Of the eligible positions of each row, as many as `chosen_counts` says: those with the lowest scores."""
    counts = chosen_counts(eligible.sum(dim=1), rate)
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
