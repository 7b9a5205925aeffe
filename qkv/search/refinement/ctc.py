"""Reading a CTC canvas: the best path collapsed, the best output by a prefix beam search, or one of a given length."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field
from torch import Tensor

from qkv.models.decoders.ctc import CtcModel
from qkv.models.parallel.base import EncodedSource
from qkv.search.base import LengthLimits
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Reader, ReaderConfig, Wanted, cut, readers
from qkv.search.refinement.canvas import Pass

Steps = Sequence[Mapping[int, float]]
Prefix = tuple[int, ...]
Ends = tuple[float, float]
"""log p of the paths to a prefix that end with a blank, and of those that end with its last token."""
NOWHERE = (-math.inf, -math.inf)


def runs(path: Sequence[int], blank: int) -> list[tuple[int, int]]:
    """(start, stop) of each run of equal tokens that is not blank: what is left when the path collapses."""
    found: list[tuple[int, int]] = []
    for at, token in enumerate(path):
        if token == blank:
            continue
        if at and path[at - 1] == token:
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    return found


def prefix_beam_search(steps: Steps, blank: int, size: int) -> list[tuple[Prefix, float]]:
    """The `size` most probable outputs and log P of each, best first.

    With all tokens in every step and a beam that is wide enough, log P is exact.
    """
    beam: dict[Prefix, Ends] = {(): (0.0, -math.inf)}
    totals: dict[Prefix, float] = {(): 0.0}
    for step in steps:
        after = _after(step, beam, totals, blank)
        found = {prefix: _add(*ends) for prefix, ends in after.items()}
        best = sorted((-total, prefix) for prefix, total in found.items() if total > -math.inf)[:size]
        totals = {prefix: -worse for worse, prefix in best}
        beam = {prefix: after[prefix] for prefix in totals}
    return list(totals.items())


def _after(
    step: Mapping[int, float], beam: Mapping[Prefix, Ends], totals: Mapping[Prefix, float], blank: int
) -> dict[Prefix, Ends]:
    """The beam's paths, one position longer."""
    after: dict[Prefix, Ends] = {}
    for prefix, (to_blank, to_token) in beam.items():
        total, last = totals[prefix], prefix[-1] if prefix else None
        for token, log_p in step.items():
            if token == blank:
                ends, token_ends = after.get(prefix, NOWHERE)
                after[prefix] = _add(ends, total + log_p), token_ends
                continue
            longer, before = (*prefix, token), total
            if token == last:
                # The same token again is still the last one; only after a blank it is a new one.
                blank_ends, ends = after.get(prefix, NOWHERE)
                after[prefix] = blank_ends, _add(ends, to_token + log_p)
                before = to_blank
            blank_ends, ends = after.get(longer, NOWHERE)
            after[longer] = blank_ends, _add(ends, before + log_p)
    return after


def _add(a: float, b: float) -> float:
    """log(e^a + e^b)"""
    high, low = (a, b) if a > b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def ctc_path_of_length(steps: Steps, blank: int, count: int) -> list[int]:
    """The most probable path that collapses to `count` tokens, or to as many of them as are possible.

    D_t(n, last) is the best score of t positions with n tokens so far, the t-th of which says `last`. A token counts
    as new unless the position before says the same.
    """
    best: dict[tuple[int, int], float] = {(0, blank): 0.0}
    back: list[dict[tuple[int, int], tuple[int, int]]] = []
    for step in steps:
        now: dict[tuple[int, int], float] = {}
        came: dict[tuple[int, int], tuple[int, int]] = {}
        for (tokens, last), score in best.items():
            for token, log_p in step.items():
                key = (tokens + (token not in (blank, last)), token)
                if key[0] <= count and (key not in now or score + log_p > now[key]):
                    now[key], came[key] = score + log_p, (tokens, last)
        best = now
        back.append(came)
    most = max(tokens for tokens, _ in best)
    key = max((key for key in best if key[0] == most), key=best.__getitem__)
    path: list[int] = []
    for came in reversed(back):
        path.append(key[1])
        key = came[key]
    return path[::-1]


CANDIDATES = 3
"""Tokens of a position that are considered where a length is wanted: two that differ from the blank, so that any length
up to that of the canvas can be reached."""
FAINT = math.log(1e-3)
"""A beam does not look at a third token that is less probable than this: nearly all positions of a canvas are sure."""


@readers.register
class CtcReaderConfig(ReaderConfig):
    """For the decoder ctc: the best path collapses, or a prefix beam search adds up all paths to an output."""

    kind: Literal["ctc"] = "ctc"
    beam: int = Field(default=1, ge=1)
    """Size of the prefix beam search; 1: the best path collapses."""
    blank_penalty: float = Field(default=0.0, ge=-100, le=100)
    """Taken from the logit of the blank; more than 0: longer outputs, for a model that says too little."""

    grid = ({"search.beam": "1,8", "search.blank_penalty": "-1,-0.5,0,0.5,1,2"},)

    @property
    def outputs(self) -> int:
        return self.beam

    def problem(self, wanted: Wanted, passes: int) -> str | None:
        if self.beam > 1 and (not wanted.plain or passes > 1):
            return "the beam of ctc goes with one pass and its own length; leave out the other settings"
        return None

    def build(self, model: CtcModel, wanted: Wanted) -> "CtcReader":
        return CtcReader(model, wanted, self.beam, self.blank_penalty)

    def read_tokens(self, tokens: list[int], scores: list[float], limits: LengthLimits, last_id: int) -> Hypothesis:
        return collapsed(tokens, scores, last_id, limits)


class CtcReader(Reader):
    """The score is log p of the best path; with a beam, of all paths to the output that the beam saw."""

    def __init__(self, model: CtcModel, wanted: Wanted, beam: int = 1, blank_penalty: float = 0.0) -> None:
        self.model = model
        self.wanted = wanted
        self.beam = beam
        self.ask = model.blank
        self.penalty = blank_penalty
        self.top = max(1 if wanted.plain else CANDIDATES, 1 if beam == 1 else beam + 1)

    def lengths(self, source: EncodedSource, limits: Sequence[LengthLimits]) -> Tensor:
        lengths = self.model.canvas_lengths(source.lengths)
        self.wanted.check(lengths, source)
        return lengths[:, None]

    def read(self, filled: Pass, row: int, length: int, limits: LengthLimits) -> list[Hypothesis]:
        blank = self.model.blank
        if self.beam > 1:
            steps = [_likely(step, blank) for step in self._steps(filled, row, length)]
            found = prefix_beam_search(steps, blank, self.beam)
            return [cut(list(prefix), [], score, limits) for prefix, score in found]
        tokens: list[int] = filled.tokens[row, :length].tolist()
        scores: list[float] = filled.scores[row, :length].tolist()
        if not self.wanted.plain:
            steps = self._steps(filled, row, length)
            tokens = ctc_path_of_length(steps, blank, self.wanted.of(len(runs(tokens, blank)), limits))
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


def collapsed(tokens: list[int], scores: list[float], blank: int, limits: LengthLimits) -> Hypothesis:
    """What a path says; a token's score is that of the surest position of its run."""
    said = runs(tokens, blank)
    best = [max(scores[start:stop]) for start, stop in said]
    return cut([tokens[start] for start, _ in said], best, math.fsum(scores), limits)
