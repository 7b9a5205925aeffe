"""What every search has in common: its settings, the sentences it is given, and the registry of kinds."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.data.length_limit import BEFORE, LengthLimit
from qkv.search.hypothesis import Hypothesis
from qkv.search.steps import StepFunction
from qkv.text.special import SpecialIds


@dataclass(frozen=True)
class LengthLimits:
    """How long the output of one sentence may be, in tokens without END.

    A search takes `max_length` steps at most and END is one of them, so an output with `max_length` tokens was cut.
    """

    max_length: int
    min_length: int = 0


@dataclass(frozen=True)
class Constraints:
    """What the output of one sentence must and must not hold, as token ids."""

    prefix: Sequence[int] = ()
    """The output begins so, whatever the other rules say."""
    forbidden: Sequence[Sequence[int]] = ()
    """Sequences that do not occur."""
    required: Sequence[Sequence[int]] = ()
    """Sequences that all occur."""
    length: tuple[int, int] | None = None
    """The fewest and the most tokens; at the most, END follows."""

    @property
    def needed(self) -> int:
        """So many tokens surely suffice for all that must occur."""
        return max(len(self.prefix) + sum(map(len, self.required)), self.length[1] if self.length else 0)


def _go_on() -> None:
    pass


@dataclass(frozen=True)
class SearchTask:
    """One batch of sentences."""

    src: Tensor
    """[B, S], each row ends with END."""
    src_keep: Tensor
    """[B, S], True on real tokens."""
    special: SpecialIds
    limits: Sequence[LengthLimits]
    """One for each sentence."""
    nbest: int = 1
    """How many hypotheses of each sentence are wanted."""
    constraints: Sequence[Constraints] = ()
    """One for each sentence, or none at all."""
    after_step: Callable[[], None] = _go_on
    """Called after each step; it stops the search by raising."""
    detokenize: Callable[[list[int]], str] | None = None
    """Tokens to text, for a search that compares texts; without it the ids themselves are the words."""

    def sources(self, sentences: Sequence[int]) -> tuple[Tensor, Tensor]:
        """`src` and `src_keep` of some of the sentences."""
        if len(sentences) == len(self.limits):
            return self.src, self.src_keep
        index = torch.tensor(sentences, dtype=torch.long, device=self.src.device)
        return self.src[index], self.src_keep[index]

    def src_lengths(self) -> list[int]:
        """The number of real tokens of each source, END included."""
        lengths: list[int] = self.src_keep.sum(dim=1).tolist()
        return lengths


class SearchConfig(Config):
    """How an output is found, and how long it may be.

    Of two limits that exclude each other the longest length holds. Only a prefix and required words are stronger:
    where they do not fit, the longest length is raised until they and END do, as far as the model can go.
    """

    max_length: int | None = Field(default=None, ge=0)
    """The most tokens of an output, in place of the limit that the model learnt from its training data. Together with
    `max_factor` or `max_extra`, the smaller limit holds."""
    max_factor: float | None = Field(default=None, ge=0)
    """An output has at most `max_factor` x source tokens (END counted) + `max_extra` tokens. null: as the model learnt
    from its training data, or 2 for a model that was saved without a limit."""
    max_extra: int | None = Field(default=None, ge=0)
    """See `max_factor`; 10 for a model that was saved without a limit."""
    min_length: int = Field(default=0, ge=0)
    """The fewest tokens of an output: END is not said before."""
    min_factor: float = Field(default=0.0, ge=0)
    """An output has at least `min_factor` x source tokens (END counted)."""
    no_repeat_ngram: int = Field(default=0, ge=0)
    """No sequence of so many tokens occurs twice in an output; 0: no such rule."""

    @model_validator(mode="after")
    def _some_length_is_allowed(self) -> "SearchConfig":
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is more than max_length {self.max_length}; lower it")
        return self

    def within(self, learnt: LengthLimit | None) -> Self:
        """The same search, with the limit that a model learnt filled in wherever this one sets none."""
        if self._only_max_length:
            return self
        learnt = learnt or BEFORE
        known: dict[str, Any] = {"max_factor": learnt.factor, "max_extra": learnt.extra}
        if self.max_factor is None and self.max_extra is None:
            known["max_length"] = learnt.most
        return self.model_copy(update={key: value for key, value in known.items() if getattr(self, key) is None})

    @property
    def _only_max_length(self) -> bool:
        return self.max_length is not None and self.max_factor is None and self.max_extra is None

    def limits(self, src_length: int, model_limit: int | None = None, needed: int = 0) -> LengthLimits:
        """For a source of `src_length` tokens, END included; `model_limit` is the most that the model can output, and
        `needed` tokens must find room.
        """
        most = sys.maxsize if self.max_length is None else self.max_length
        if not self._only_max_length:
            factor = BEFORE.factor if self.max_factor is None else self.max_factor
            extra = BEFORE.extra if self.max_extra is None else self.max_extra
            most = min(most, int(factor * src_length) + extra)
        most = max(most, needed + 1) if needed else most
        most = min(most, sys.maxsize if model_limit is None else model_limit)
        fewest = max(self.min_length, ceil(self.min_factor * src_length))
        return LengthLimits(most, min(fewest, most))

    @property
    def exact_length(self) -> int | None:
        """The number of tokens that every output has, if one was given."""
        return None

    @property
    def rows(self) -> int:
        """How many hypotheses of a sentence are carried on at once, which is what it takes of a batch."""
        return 1

    @property
    def hypotheses(self) -> int:
        """How many hypotheses of a sentence there are at most at once."""
        return self.rows

    @property
    def needs_attention(self) -> bool:
        """Whether it ranks by attention weights, so that the step function must give them."""
        return False

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        """For each sentence at least one and at most `task.nbest` hypotheses, best first."""
        raise NotImplementedError


searches = Kinds[SearchConfig]("search")
AnySearch = Annotated[SearchConfig, searches]


class SteppedSearch(SearchConfig):
    """A search that writes one token after another, and may be asked for a length.

    Of all outputs within a window of lengths the search then finds the best. A token is never cut off: END may not be
    said before the window, and must be at its end. The scores stay those of the model.
    """

    length_factor: float = Field(default=1.0, gt=0, le=100)
    """Outputs are so many times as long as the search would make them: it is asked for that length first."""
    length: int | None = Field(default=None, ge=1)
    """Every output has exactly so many tokens."""
    length_slack: int = Field(default=1, ge=0)
    """With `length_factor`: an output may have so many tokens more or less."""

    @model_validator(mode="after")
    def _one_wish(self) -> Self:
        if self.length is not None and self.length_factor != 1.0:
            raise ValueError("length says how long an output is; leave out length_factor")
        return self

    @property
    def exact_length(self) -> int | None:
        return self.length

    @property
    def wants_length(self) -> bool:
        return self.length is not None or self.length_factor != 1.0

    def without_length(self) -> Self:
        """The same search, left to itself."""
        return self.model_copy(update={"length": None, "length_factor": 1.0})

    def window(self, usual: int) -> tuple[int, int]:
        """The fewest and the most tokens of an output that would have `usual` tokens."""
        if self.length is not None:
            return self.length, self.length
        wanted = max(1, round(self.length_factor * usual))
        return max(1, wanted - self.length_slack), wanted + self.length_slack
