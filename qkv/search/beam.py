"""Beam search, plain or diverse (in groups)."""

from bisect import insort_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from qkv.core.errors import QkvError, UsageError
from qkv.core.state import StepState
from qkv.search.base import Search, SearchTask, SteppedSearch, StepwiseSearch, searches
from qkv.search.constraints import Row, Rules, dealt
from qkv.search.hypothesis import Candidate, Hypothesis, Partial, best_candidates
from qkv.search.length_penalty import (
    AnyLengthPenalty,
    Enough,
    Exact,
    Heuristic,
    Power,
    Standing,
    StoppingName,
    StoppingRule,
)
from qkv.search.protocol import StepFunction
from qkv.search.walk import begin

if TYPE_CHECKING:
    from qkv.models.saved.folder import SavedModel

DEFAULT_PENALTY = Power().at
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
    """The beam on which it continues; None: it is finished."""


@dataclass(frozen=True)
class Finished:
    """A hypothesis that ended or was cut."""

    score: float
    partial: Partial
    ended: bool


@dataclass(frozen=True)
class Judge:
    """The score of a finished hypothesis, and the stopping rule of a group."""

    length_penalty: Callable[[int], float]
    coverage: float
    width: int
    """Beams per group."""
    stopping: StoppingRule

    def score(self, partial: Partial, src_length: int) -> float:
        """log p / length penalty + coverage penalty."""
        score = partial.total / self.length_penalty(partial.length)
        if self.coverage and partial.length:
            score += self.coverage * log_coverage(partial.attentions(), src_length)
        return score

    def done(self, group: "BeamGroup") -> bool:
        """Whether a group with live beams may stop."""
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
class BeamGroup:
    """Starts with the empty hypothesis."""

    judge: Judge
    end: int
    """The id of END."""
    src_length: int
    max_length: int
    first: int = 0
    """Index of its first beam among those of all groups."""
    live: list[Partial] = field(default_factory=lambda: [Partial()])
    """Best first, one per beam; empty: the group is done."""
    parents: list[int] = field(default_factory=lambda: [0])
    """The beam that each live one continued."""
    finished: list[Finished] = field(default_factory=list)
    """The best finished ones, best first, at most as many as beams; ties go to the one that ended first."""

    def totals(self) -> list[float]:
        """log p of each beam, -inf for an empty one."""
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
        """No token is allowed: finish the live hypotheses as they are, unless there are better ones."""
        if not self.finished:
            for partial in self.live:
                self._finish(partial, False)
        self.live = []

    def _finish(self, partial: Partial, ended: bool) -> None:
        finished = Finished(self.judge.score(partial, self.src_length), partial, ended)
        insort_right(self.finished, finished, key=lambda each: -each.score)
        del self.finished[self.judge.width :]


Observer = Callable[[int, list[Kept]], None]
"""Called after each step with the number of a sentence and the candidates that were kept."""


@searches.register
class BeamConfig(SteppedSearch):
    """Beam search with `size` beams. Score: log p(Y | X) / length penalty + coverage penalty.

    Each step considers the 2 x size best candidates of a sentence: END among the first `size` of them is a finished
    hypothesis, and the best `size` others continue. Ties go to the lower beam, then to the lower token. Hypotheses that
    reach the maximum length are finished too, but not ended.
    """

    kind: Literal["beam"] = "beam"
    size: int = Field(default=5, ge=1)
    """Number of beams."""
    length_penalty: AnyLengthPenalty = Power()
    """What the log-probability of a finished hypothesis is divided by."""
    coverage_penalty: float = Field(default=0.0, ge=0)
    """beta of beta x sum over source tokens of log min(attention that it got, 1) (Wu 2016); 0: none."""
    groups: int = Field(default=1, ge=1)
    """Groups of size / groups beams, each penalised for choices of the previous groups (Vijayakumar 2018)."""
    diversity: float = Field(default=0.5, ge=0)
    """The penalty for each previous group that chose the same token at the same step; not part of the score."""
    stop: StoppingName = "heuristic"
    """When a sentence is done. enough: `size` hypotheses have ended. heuristic: and no live one would be better than
    the worst of the best `size` if it ended now. exact: none can ever be among the best."""

    @model_validator(mode="after")
    def _groups_of_one_size(self) -> "BeamConfig":
        if self.size % self.groups:
            raise ValueError(f"size {self.size} cannot be divided into {self.groups} groups of one size")
        return self

    @property
    def rows(self) -> int:
        return self.size

    @property
    def unpenalised(self) -> bool:
        """Whether the score is log p itself, which only falls."""
        return not self.coverage_penalty and self.length_penalty.at(1) == self.length_penalty.at(2)

    def build(self, saved: "SavedModel | None" = None) -> Search:
        return self.within_window(self.beam_search())

    def beam_search(self, observer: Observer | None = None) -> "BeamSearch":
        """Without a wanted length."""
        return BeamSearch(
            self.size,
            self.length_penalty.at,
            self.coverage_penalty,
            self.groups,
            self.diversity,
            self.stop,
            self.no_repeat_ngram,
            observer,
        )


class BeamSearch(StepwiseSearch):
    """Beam search; see `BeamConfig` for what each argument does. `observer` sees every step."""

    def __init__(
        self,
        size: int = 5,
        length_penalty: Callable[[int], float] = DEFAULT_PENALTY,
        coverage_penalty: float = 0.0,
        groups: int = 1,
        diversity: float = 0.5,
        stop: StoppingName = "heuristic",
        no_repeat_ngram: int = 0,
        observer: Observer | None = None,
    ) -> None:
        if size % groups:
            raise UsageError(f"size {size} cannot be divided into {groups} groups of one size")
        self.size, self.length_penalty, self.coverage_penalty = size, length_penalty, coverage_penalty
        self.groups, self.diversity = groups, diversity
        self.stop: StoppingName = stop
        self.no_repeat_ngram, self.observer = no_repeat_ngram, observer
        self.needs_attention = coverage_penalty > 0

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        if task.nbest > self.size:
            raise UsageError(f"a beam of size {self.size} cannot give {task.nbest} hypotheses: raise the search's size")
        return _BeamRun(self, steps, task).run()

    def stopping(self, nbest: int) -> StoppingRule:
        """When a group of hypotheses is done, of which the best `nbest` are wanted."""
        width = self.size // self.groups
        exact = Exact(min(nbest, width), self.length_penalty)
        unpenalised = not self.coverage_penalty and self.length_penalty(1) == self.length_penalty(2)
        # Without penalties exact stopping comes first and costs nothing.
        if unpenalised or self.stop == "exact":
            return exact
        # A beam of one ends where greedy search ends.
        return Enough(width) if self.stop == "enough" or width == 1 else Heuristic(width, exact)


class _BeamRun:
    """Row = place of the sentence among those that are left x size + group x width + beam."""

    def __init__(self, search: BeamSearch, steps: StepFunction, task: SearchTask) -> None:
        self.search, self.steps, self.task, self.observer = search, steps, task, search.observer
        self.rules = Rules(task, search.no_repeat_ngram)
        width = search.size // search.groups
        stopping = search.stopping(task.nbest)
        self.judge = Judge(search.length_penalty, search.coverage_penalty, width, stopping)
        sizes = list(zip(task.src_lengths(), task.limits, strict=True))
        self.groups = [
            [
                BeamGroup(self.judge, task.special.eos, src_length, limits.max_length, first)
                for first in range(0, search.size, width)
            ]
            for src_length, limits in sizes
        ]
        for groups in self.groups:
            for group in groups:
                if not group.max_length:
                    group.cut()
        self.left = [index for index, (_, limits) in enumerate(sizes) if limits.max_length]
        """The sentences that are still in the batch."""

    @torch.no_grad()
    def run(self) -> list[list[Hypothesis]]:
        size, device = self.search.size, self.task.src.device
        if self.left:
            state, first = self._begin()
            tokens = torch.tensor(first, device=device).repeat_interleave(size)
        while self.left:
            output, state = self.steps.step(tokens, state)
            self._expand(self._allowed(output.log_probs), output.attention)
            self._tell()
            self.task.after_step()
            places = [place for place, index in enumerate(self.left) if any(group.live for group in self.groups[index])]
            rows, said = self._going_on(places)
            if places and rows != list(range(len(tokens))):
                state = state.reorder(torch.tensor(rows, device=device), torch.tensor(places, device=device))
            self.left = [self.left[place] for place in places]
            tokens = torch.tensor(said, device=device)
        return [self._best(index) for index in range(len(self.groups))]

    def _tell(self) -> None:
        """Say what is best so far: the most probable hypothesis that goes on, at last the best one that has ended."""
        if self.task.watch is None:
            return
        for index in self.left:
            first = self.groups[index][0]
            leading = first.live[0] if first.live else first.finished[0].partial
            self.task.watch(index, leading.tokens())

    def _begin(self) -> tuple[StepState, list[int]]:
        """Read the sources and the prefixes. An observer wants to see every step, so it gets them one by one."""
        if self.observer:
            start = self.steps.start(*self.task.sources(self.left), beams=self.search.size)
            return start, [self.task.special.bos] * len(self.left)
        state, first, written = begin(self.steps, self.task, self.left, self.search.size)
        for index, partial in zip(self.left, written, strict=True):
            for group in self.groups[index]:
                group.live = [partial]
        return state, first

    def _allowed(self, log_probs: Tensor) -> Tensor:
        """The log-probabilities after the rules, by sentence [B, size, V]."""
        if self.rules.active:
            rows: list[Row] = []
            for index in self.left:
                for group in self.groups[index]:
                    idle = [None] * (self.judge.width - len(group.live))
                    rows += [(index, partial) for partial in (*group.live, *idle)]
            log_probs = self.rules.apply(log_probs, rows)
        return log_probs.reshape(len(self.left), self.search.size, -1)

    def _expand(self, log_probs: Tensor, attention: Tensor | None) -> None:
        """One step of all groups, in order."""
        width = self.judge.width
        weights = None if attention is None else attention.reshape(*log_probs.shape[:2], -1)
        kept: list[list[Kept]] = [[] for _ in self.left]
        chosen = log_probs.new_zeros(len(self.left), 1, log_probs.shape[-1]) if self.search.groups > 1 else None
        for number, first in enumerate(range(0, self.search.size, width)):
            beams = slice(first, first + width)
            plain = log_probs[:, beams]
            ranked = plain if chosen is None else plain - self.search.diversity * chosen
            groups = [self.groups[index][number] for index in self.left]
            candidates = best_candidates(ranked, plain, np.array([group.totals() for group in groups]), 2 * width)
            for place, group in enumerate(groups):
                if not group.live:
                    continue
                required = self.rules.required(self.left[place])
                if required is not None:
                    candidates[place] = dealt(required, group.live, candidates[place], ranked[place], plain[place])
                new = group.advance(candidates[place], None if weights is None else weights[place, beams])
                if chosen is not None:
                    for each in new:
                        chosen[place, 0, each.token] += 1
                kept[place] += new
        if self.observer:
            for index, step in zip(self.left, kept, strict=True):
                self.observer(index, step)

    def _going_on(self, places: list[int]) -> tuple[list[int], list[int]]:
        """For each row of the remaining sentences: the row that it continues, and its last token.

        Unused beams repeat the first row with END; their output is ignored.
        """
        rows, said = [], []
        for place in places:
            start = place * self.search.size
            for number, group in enumerate(self.groups[self.left[place]]):
                first = start + number * self.judge.width
                idle = self.judge.width - len(group.live)
                rows += [first + parent for parent in group.parents[: len(group.live)]] + [start] * idle
                said += [partial.token for partial in group.live] + [self.task.special.eos] * idle
        return rows, said

    def _best(self, index: int) -> list[Hypothesis]:
        """The best of all groups, without duplicates; ties go to the one that ended first."""
        groups = self.groups[index]
        finished = sorted((each for group in groups for each in group.finished), key=lambda each: -each.score)
        found: dict[tuple[int, ...], Hypothesis] = {}
        for each in finished:
            if len(found) == self.task.nbest:
                break
            hypothesis = each.partial.hypothesis(each.score, each.ended, groups[0].src_length)
            found.setdefault(tuple(hypothesis.tokens), hypothesis)
        return list(found.values())
