"""Reading a CTC canvas: the best path collapsed, the best output by a prefix beam search, or one of a given length."""

import math
from collections.abc import Sequence

from torch import Tensor

from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.refinement.base import Generator, Wanted, cut
from qkv.decoding.refinement.canvas import Pass
from qkv.decoding.refinement.paths import path_of_length, prefix_beam_search, runs
from qkv.decoding.search import Limits
from qkv.models.decoders.ctc import CtcModel
from qkv.models.parallel import Source

CANDIDATES = 3
"""Tokens of a position that are considered where a length is wanted: two that differ from the blank, so that any length
up to that of the canvas can be reached."""
FAINT = math.log(1e-3)
"""A beam does not look at a third token that is less probable than this: nearly all positions of a canvas are sure."""


class CtcGenerator(Generator):
    """The score is log p of the best path; with a beam, of all paths to the output that the beam saw."""

    keeps_prefixes = True
    has_blanks = True

    def __init__(self, model: CtcModel, wanted: Wanted) -> None:
        self.model = model
        self.wanted = wanted
        self.ask = model.blank
        self.penalty = wanted.blank_penalty
        self.top = max(1 if wanted.plain else CANDIDATES, 1 if wanted.beam == 1 else wanted.beam + 1)

    def lengths(self, source: Source, limits: Sequence[Limits]) -> Tensor:
        lengths = self.model.canvas_lengths(source.lengths)
        self.wanted.check(lengths, source)
        return lengths[:, None]

    def read(self, filled: Pass, row: int, length: int, limits: Limits) -> list[Hypothesis]:
        blank = self.model.blank
        if self.wanted.beam > 1:
            steps = [_likely(step, blank) for step in self._steps(filled, row, length)]
            found = prefix_beam_search(steps, blank, self.wanted.beam)
            return [cut(list(prefix), [], score, limits) for prefix, score in found]
        tokens: list[int] = filled.tokens[row, :length].tolist()
        scores: list[float] = filled.scores[row, :length].tolist()
        if not self.wanted.plain:
            steps = self._steps(filled, row, length)
            tokens = path_of_length(steps, blank, self.wanted.of(len(runs(tokens, blank)), limits))
            scores = [step[token] for step, token in zip(steps, tokens, strict=True)]
        return [collapsed(tokens, scores, blank, limits)]

    def _steps(self, filled: Pass, row: int, length: int) -> list[dict[int, float]]:
        """What the last pass considered at each position, the blank always."""
        guess = filled.guess
        assert guess.chosen is not None
        each = zip(guess.tokens[row, :length].tolist(), guess.log_probs[row, :length].tolist(), strict=True)
        blanks: list[float] = guess.chosen[row, :length].tolist()
        return [
            {**dict(zip(tokens, values, strict=True)), self.model.blank: blank}
            for (tokens, values), blank in zip(each, blanks, strict=True)
        ]


def _likely(step: dict[int, float], blank: int) -> dict[int, float]:
    """Of tokens that are sorted by log p."""
    first = list(step)[:2]
    return {token: log_p for token, log_p in step.items() if log_p > FAINT or token in (*first, blank)}


def collapsed(tokens: list[int], scores: list[float], blank: int, limits: Limits) -> Hypothesis:
    """What a path says; a token's score is that of the surest position of its run."""
    said = runs(tokens, blank)
    best = [max(scores[start:stop]) for start, stop in said]
    return cut([tokens[start] for start, _ in said], best, math.fsum(scores), limits)
