"""A source as the sentences of a story and a question: which word belongs where."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.functional.memory import word_order


class Sentences(NamedTuple):
    """A batch of sources in which every sentence of the story ends with a separator; the rest is the question."""

    member: Tensor
    """[B, 1 + N, S], True where a word belongs to a sentence: the question first, then the story, the newest first."""
    place: Tensor
    """[B, S], each word's place in its sentence, counted from 1."""
    length: Tensor
    """[B, S], how many words its sentence has."""

    @property
    def keep(self) -> Tensor:
        """[B, N], True for the sentences that a story has."""
        return self.member[:, 1:].any(dim=2)

    def sums(self, words: Tensor, ordered: bool) -> Tensor:
        """[B, 1 + N, D], the sum of the words [B, S, D] of each sentence; `ordered` tells their order apart."""
        if ordered:
            place, length = self.place.to(words.dtype), self.length.to(words.dtype)
            words = words * word_order(place, length, words.shape[-1])
        return self.member.to(words.dtype) @ words


def split_sentences(src: Tensor, keep: Tensor, separator: int, end: int, most: int) -> Sentences:
    """Of source ids [B, S]; only the `most` newest sentences of a story count."""
    ends = (src == separator) & keep
    words = keep & ~ends & (src != end)
    after = (
        ends.long().flip(1).cumsum(1).flip(1)
    )  # separators from here on: 0 in the question, 1 in the newest sentence
    count = min(most, int(after.max()))
    member = (after[:, None] == torch.arange(count + 1, device=src.device)[:, None]) & words[:, None]
    length = (member.sum(dim=2, keepdim=True) * member).sum(dim=1)
    place = (member.long().cumsum(dim=2) * member).sum(dim=1)
    return Sentences(member if count else F.pad(member, (0, 0, 0, 1)), place, length)
