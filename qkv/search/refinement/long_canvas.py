"""Reading a canvas that is longer than the output: up to its first END."""

import math
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from qkv.models.decoders.canvas import CanvasModel
from qkv.models.parallel.base import EncodedSource
from qkv.search.base import LengthLimits
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Reader, ReaderConfig, Wanted, cut, readers
from qkv.search.refinement.canvas import Pass
from qkv.text.special import NEVER_OUTPUT, SPECIAL


@readers.register
class CanvasReaderConfig(ReaderConfig):
    """For the decoder canvas: all tokens before the first END."""

    kind: Literal["canvas"] = "canvas"

    grid = ({"search.length_factor": "0.9,1,1.1"},)

    def build(self, model: CanvasModel, wanted: Wanted) -> "CanvasReader":
        return CanvasReader(model, wanted)

    def read_tokens(self, tokens: list[int], scores: list[float], limits: LengthLimits, last_id: int) -> Hypothesis:
        return until_end(tokens, scores, limits)


class CanvasReader(Reader):
    """The score is the mean log p of the tokens and of END. With a requested length, END is put there."""

    never = NEVER_OUTPUT

    def __init__(self, model: CanvasModel, wanted: Wanted) -> None:
        self.model = model
        self.wanted = wanted
        # Where END is not allowed, the second best token replaces it.
        self.top = 1 if wanted.plain else 2

    def lengths(self, source: EncodedSource, limits: Sequence[LengthLimits]) -> Tensor:
        lengths = self.model.canvas_lengths(source.lengths)
        self.wanted.check(lengths, source)
        return lengths[:, None]

    def read(self, filled: Pass, row: int, length: int, limits: LengthLimits) -> list[Hypothesis]:
        tokens: list[int] = filled.tokens[row, :length].tolist()
        scores: list[float] = filled.scores[row, :length].tolist()
        if self.wanted.plain:
            return [until_end(tokens, scores, limits)]
        return [self._of_length(filled, row, min(self.wanted.of(_end(tokens), limits), length), limits)]

    def _of_length(self, filled: Pass, row: int, count: int, limits: LengthLimits) -> Hypothesis:
        """The first `count` positions, each with its best token but END."""
        guess = filled.guess
        second = (guess.tokens[row, :count, 0] == SPECIAL.eos).long()[:, None]
        tokens: list[int] = guess.tokens[row, :count].gather(1, second)[:, 0].tolist()
        scores: list[float] = guess.log_probs[row, :count].gather(1, second)[:, 0].tolist()
        return cut(tokens, scores, math.fsum(scores) / max(count, 1), limits)


def until_end(tokens: list[int], scores: list[float], limits: LengthLimits) -> Hypothesis:
    """The tokens before the first END."""
    natural = _end(tokens)
    said = scores[: natural + 1]
    if natural == len(tokens) or natural > limits.max_length:
        most = min(natural, limits.max_length)
        return Hypothesis(tokens[:most], scores[:most], math.fsum(said) / max(len(said), 1), ended=False)
    return Hypothesis(tokens[:natural], said, math.fsum(said) / len(said), ended=True)


def _end(tokens: list[int]) -> int:
    return tokens.index(SPECIAL.eos) if SPECIAL.eos in tokens else len(tokens)
