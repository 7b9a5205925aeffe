"""Reading a canvas of predicted length: every position is a token."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.models.decoders.nat import NatModel
from qkv.models.parallel.base import Source
from qkv.search.base import Limits
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Generator, Wanted, cut
from qkv.search.refinement.canvas import Pass


class NatGenerator(Generator):
    """The most probable lengths are tried; the score is the mean log p of the tokens, which is how lengths compete."""

    tries_lengths = True

    def __init__(self, model: NatModel, wanted: Wanted) -> None:
        self.model = model
        self.wanted = wanted

    def lengths(self, source: Source, limits: Sequence[Limits]) -> Tensor:
        if self.wanted.length is not None:
            most = self.model.tgt_embedder.positions.max_length
            if most is not None and self.wanted.length > most:
                raise UsageError(f"search.length {self.wanted.length} is outside the canvas: the model writes {most}")
            return torch.full((len(source.src), 1), self.wanted.length, device=source.src.device)
        natural = self.model.length_predictor.lengths(source, self.wanted.length_beam)
        rows = zip(natural.tolist(), limits, strict=True)
        return natural.new_tensor([[self.wanted.of(length, own) for length in lengths] for lengths, own in rows])

    def read(self, filled: Pass, row: int, length: int, limits: Limits) -> list[Hypothesis]:
        tokens: list[int] = filled.tokens[row, :length].tolist()
        scores: list[float] = filled.scores[row, :length].tolist()
        return [whole(tokens, scores, limits)]


class MaskPredictGenerator(NatGenerator):
    """Made for several passes."""

    passes = 10


def whole(tokens: list[int], scores: list[float], limits: Limits) -> Hypothesis:
    """All of a canvas."""
    return cut(tokens, scores, math.fsum(scores) / len(tokens), limits)
