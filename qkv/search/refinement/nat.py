"""Reading a canvas of predicted length: every position is a token."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.models.decoders.nat import NatModel
from qkv.models.parallel.base import EncodedSource
from qkv.search.base import LengthLimits
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Reader, ReaderConfig, Wanted, cut, readers
from qkv.search.refinement.canvas import Pass


@readers.register
class NatReaderConfig(ReaderConfig):
    """For the decoder nat: every position of a canvas of predicted length is a token."""

    kind: Literal["nat"] = "nat"

    tries_lengths = True
    grid = ({"search.length_beam": "1,3,5,9"},)

    def build(self, model: NatModel, wanted: Wanted) -> "NatReader":
        return NatReader(model, wanted)

    def read_tokens(self, tokens: list[int], scores: list[float], limits: LengthLimits, last_id: int) -> Hypothesis:
        return whole(tokens, scores, limits)


@readers.register
class MaskPredictReaderConfig(ReaderConfig):
    """For the decoder mask_predict, which is made for several passes: every position is a token."""

    kind: Literal["mask_predict"] = "mask_predict"

    passes = 10
    tries_lengths = True
    grid = ({"search.passes": "1,4,10", "search.length_beam": "1,3,5"},)

    def build(self, model: NatModel, wanted: Wanted) -> "NatReader":
        return NatReader(model, wanted)

    def read_tokens(self, tokens: list[int], scores: list[float], limits: LengthLimits, last_id: int) -> Hypothesis:
        return whole(tokens, scores, limits)


class NatReader(Reader):
    """Tries the most probable lengths; the score is the mean log p of the tokens, comparable across lengths."""

    def __init__(self, model: NatModel, wanted: Wanted) -> None:
        self.model = model
        self.wanted = wanted

    def lengths(self, source: EncodedSource, limits: Sequence[LengthLimits]) -> Tensor:
        if self.wanted.length is not None:
            most = self.model.limits.tgt
            if most is not None and self.wanted.length > most:
                raise UsageError(f"search.length {self.wanted.length} is outside the canvas: the model writes {most}")
            return torch.full((len(source.src), 1), self.wanted.length, device=source.src.device)
        natural = self.model.length_predictor.lengths(source, self.wanted.length_beam)
        rows = zip(natural.tolist(), limits, strict=True)
        return natural.new_tensor([[self.wanted.of(length, own) for length in lengths] for lengths, own in rows])

    def read(self, filled: Pass, row: int, length: int, limits: LengthLimits) -> list[Hypothesis]:
        tokens: list[int] = filled.tokens[row, :length].tolist()
        scores: list[float] = filled.scores[row, :length].tolist()
        return [whole(tokens, scores, limits)]


def whole(tokens: list[int], scores: list[float], limits: LengthLimits) -> Hypothesis:
    """All of a canvas."""
    return cut(tokens, scores, math.fsum(scores) / len(tokens), limits)
