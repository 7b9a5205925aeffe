"""The hypotheses of one sentence, or of one group of it, in a beam search: which live on, which are finished."""

from bisect import insort_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qkv.decoding.hypothesis import Partial
from qkv.decoding.ranking import Candidate
from qkv.decoding.stopping import Standing, StoppingRule
from qkv.errors import QkvError

TINY = torch.finfo(torch.float32).tiny


class Kept(NamedTuple):
    """A candidate that a step has chosen. Beams are counted over all groups of the sentence."""

    parent: int
    """The beam that it continues."""
    token: int
    log_prob: float
    """Of the token alone."""
    total: float
    """log p of the whole hypothesis so far."""
    beam: int | None
    """The beam on which it lives on; None: it is finished."""


@dataclass(frozen=True)
class Finished:
    """A hypothesis that ended, or was cut."""

    score: float
    partial: Partial
    ended: bool


@dataclass(frozen=True)
class Judge:
    """What a finished hypothesis is worth, and when a group is done."""

    length_penalty: Callable[[int], float]
    coverage: float
    width: int
    """How many hypotheses a group carries on."""
    stopping: StoppingRule

    def score(self, partial: Partial, src_length: int) -> float:
        """log p / length penalty + coverage penalty."""
        score = partial.total / self.length_penalty(partial.length)
        if self.coverage and partial.length:
            score += self.coverage * log_coverage(partial.attentions(), src_length)
        return score

    def done(self, group: "Group") -> bool:
        """Whether a group that still lives may stop."""
        scores = [finished.score for finished in group.finished]
        best = max(partial.total for partial in group.live)
        return self.stopping(Standing(scores, best, group.live[0].length, group.max_length))


def log_coverage(attention: Sequence[Tensor], src_length: int) -> float:
    """sum over source tokens of log min(sum over output tokens of attention, 1), END included on both sides."""
    if not attention:
        raise QkvError(
            "a coverage penalty needs attention weights, which this model or engine does not give: set it to 0"
        )
    covered = torch.stack([row[:src_length] for row in attention]).sum(dim=0)
    return float(covered.clamp(TINY, 1.0).log().sum())


@dataclass(eq=False)
class Group:
    """Starts with the empty hypothesis."""

    judge: Judge
    end: int
    """The id of END."""
    src_length: int
    max_length: int
    first: int = 0
    """Its first beam among those of all groups."""
    live: list[Partial] = field(default_factory=lambda: [Partial()])
    """Best first, one for each beam; empty: the group is done."""
    parents: list[int] = field(default_factory=lambda: [0])
    """The beam that each live one continued."""
    finished: list[Finished] = field(default_factory=list)
    """The best ones that ended, as many as there are beams at most, best first; of equals that which ended first."""

    def totals(self) -> list[float]:
        """log p of each beam, -inf where there is none."""
        return [partial.total for partial in self.live] + [-np.inf] * (self.judge.width - len(self.live))

    def advance(self, candidates: Sequence[Candidate], attention: Tensor | None) -> list[Kept]:
        """Take the best candidates, best first; attention [K, S]."""
        if not candidates:
            self.cut()
            return []
        live: list[Partial] = []
        parents: list[int] = []
        kept: list[Kept] = []
        last = self.live[0].length + 1 == self.max_length
        for rank, (_, beam, token, log_prob) in enumerate(candidates):
            ended = token == self.end
            if rank >= self.judge.width if ended or last else len(live) == self.judge.width:
                continue
            partial = self.live[beam].extended(token, log_prob, None if attention is None else attention[beam])
            place = None if ended or last else self.first + len(live)
            kept.append(Kept(self.first + beam, token, log_prob, partial.total, place))
            if ended or last:
                self._finish(partial, ended)
            else:
                live.append(partial)
                parents.append(beam)
        self.live, self.parents = live, parents
        if live and self.judge.done(self):
            self.live = []
        return kept

    def cut(self) -> None:
        """Nothing may follow: what lives is finished as it is, unless there is something better."""
        if not self.finished:
            for partial in self.live:
                self._finish(partial, False)
        self.live = []

    def _finish(self, partial: Partial, ended: bool) -> None:
        finished = Finished(self.judge.score(partial, self.src_length), partial, ended)
        insort_right(self.finished, finished, key=lambda each: -each.score)
        del self.finished[self.judge.width :]
