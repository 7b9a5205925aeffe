"""The base classes of all searches, the task they are given, and the registry of kinds."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.data.length_limit import BEFORE, LengthLimit
from qkv.search.hypothesis import Hypothesis
from qkv.search.protocol import BlockFunction, StepFunction
from qkv.text.special import SpecialIds

if TYPE_CHECKING:
    from qkv.models.base import Parallel
    from qkv.models.saved.folder import SavedModel


@dataclass(frozen=True)
class LengthLimits:
    """Limits on the length of one output, in tokens without END.

    A search takes `max_length` steps at most and END is one of them, so an output with `max_length` tokens was cut.
    """

    max_length: int
    min_length: int = 0


@dataclass(frozen=True)
class Constraints:
    """Constraints on the output of one sentence, as token ids."""

    prefix: Sequence[int] = ()
    """The output begins with these tokens, whatever the other rules say."""
    forbidden: Sequence[Sequence[int]] = ()
    """Sequences that must not occur."""
    required: Sequence[Sequence[int]] = ()
    """Sequences that must all occur."""
    length: tuple[int, int] | None = None
    """The minimum and maximum number of tokens; END follows at the maximum."""

    @property
    def needed(self) -> int:
        """An upper bound on the tokens needed for everything that must occur."""
        return max(len(self.prefix) + sum(map(len, self.required)), self.length[1] if self.length else 0)


def _go_on() -> None:
    pass


Watch = Callable[[int, list[int]], None]
"""Called with the number of a sentence and the tokens of its best output so far."""


@dataclass(frozen=True)
class SearchTask:
    """One batch of sentences."""

    src: Tensor
    """[B, S], each row ends with END."""
    src_keep: Tensor
    """[B, S], True on real tokens."""
    special: SpecialIds
    limits: Sequence[LengthLimits]
    """One per sentence."""
    nbest: int = 1
    """The number of hypotheses to return per sentence."""
    constraints: Sequence[Constraints] = ()
    """One per sentence, or empty."""
    after_step: Callable[[], None] = _go_on
    """Called after each step; it stops the search by raising."""
    attention: bool = False
    """Whether the hypotheses include their cross-attention."""
    detokenize: Sequence[Callable[[list[int]], str]] = ()
    """Tokens to text, one per sentence, for a search that compares texts; without it the ids themselves are the
    words."""
    watch: Watch | None = None
    """Called after each step of a search that writes token by token, for each sentence that it has continued."""

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


def smallest(limits: Sequence[int | None]) -> int | None:
    """The strictest of some limits; None: there is none."""
    return min((limit for limit in limits if limit is not None), default=None)


class SearchModel(Protocol):
    """What a search may ask of a model or an ensemble. What it cannot do raises UsageError."""

    @property
    def tgt_limit(self) -> int | None:
        """The longest output, the start symbol included; None: any."""

    def steps(self, attention: bool) -> StepFunction:
        """One token after another, with cross-attention weights if `attention`."""

    def blocks(self, attention: bool) -> BlockFunction:
        """Several tokens in one pass, which may be taken back."""

    def parallel(self) -> "Parallel":
        """The model that fills all positions of an output at once."""


class Search(Protocol):
    """Finds outputs; made by the `build` of a config, or by itself: `BeamSearch(size=5)`."""

    @property
    def tgt_limit(self) -> int | None:
        """The longest output that it can handle, whatever the model can; None: any."""

    def search(self, task: SearchTask, model: SearchModel) -> list[list[Hypothesis]]:
        """For each sentence at least one and at most `task.nbest` hypotheses, best first."""


class StepwiseSearch:
    """A search that asks for one token after another."""

    tgt_limit: int | None = None
    needs_attention = False
    """Whether it ranks by attention weights."""

    def search(self, task: SearchTask, model: SearchModel) -> list[list[Hypothesis]]:
        return self.run(model.steps(task.attention or self.needs_attention), task)

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        """The same for a step function, such as one model's, an ensemble's or a table's."""
        raise NotImplementedError


class SearchConfig(Config):
    """How outputs are searched for, and how long they may be.

    If limits contradict each other, the maximum length wins. Only a prefix and required words override it: where they
    do not fit, the maximum is raised until they and END do, up to the model's own limit.
    """

    parallel: ClassVar[bool] = False
    """Whether it fills all positions at once, for decoders that are not autoregressive."""

    max_length: int | None = Field(default=None, ge=0)
    """Maximum number of tokens of an output, instead of the limit learnt from the training data. Together with
    `max_factor` or `max_extra`, the smaller limit applies."""
    max_factor: float | None = Field(default=None, ge=0)
    """An output has at most `max_factor` x source tokens (END counted) + `max_extra` tokens. null: the limit learnt
    from the training data, or 2 for a model that was saved without a limit."""
    max_extra: int | None = Field(default=None, ge=0)
    """See `max_factor`; 10 for a model that was saved without a limit."""
    min_length: int = Field(default=0, ge=0)
    """Minimum number of tokens of an output: END is not allowed before."""
    min_factor: float = Field(default=0.0, ge=0)
    """An output has at least `min_factor` x source tokens (END counted)."""
    no_repeat_ngram: int = Field(default=0, ge=0)
    """No n-gram of this size occurs twice in an output; 0: off."""

    @model_validator(mode="after")
    def _some_length_is_allowed(self) -> "SearchConfig":
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is more than max_length {self.max_length}; lower it")
        return self

    def within(self, learnt: LengthLimit | None) -> Self:
        """The same search, with the model's learnt limit wherever this one sets none."""
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
        `needed` tokens must fit.
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
        """The exact number of tokens of every output, if given."""
        return None

    @property
    def rows(self) -> int:
        """Rows of a batch that a sentence takes: hypotheses that are continued at once."""
        return 1

    @property
    def hypotheses(self) -> int:
        """The maximum number of hypotheses of a sentence at once."""
        return self.rows

    @property
    def src_limit(self) -> int | None:
        """The longest source that it can handle, whatever the model can; None: any."""
        return None

    @property
    def other_models(self) -> Sequence[Path]:
        """Folders of other models that the output depends on."""
        return ()

    @property
    def missing(self) -> str | None:
        """What `build` needs of a SavedModel, and what to do where there is none; None: it needs none."""
        return None

    def build(self, saved: "SavedModel | None" = None) -> Search:
        """The search itself. `saved` is the model that it is for; with something `missing`, None is a UsageError."""
        raise NotImplementedError


searches = Kinds[SearchConfig]("search")
"""Importing `qkv.search.kinds` registers those of the package."""


class SteppedSearch(SearchConfig):
    """A search that generates token by token, and may be given a length.

    It then finds the best output within a window of lengths. Nothing is cut off: END is not allowed before the window,
    and is forced at its end. The scores stay those of the model.
    """

    length_factor: float = Field(default=1.0, gt=0, le=100)
    """Length of outputs relative to the search's own, which is determined first."""
    length: int | None = Field(default=None, ge=1)
    """Exact number of tokens of every output."""
    length_slack: int = Field(default=1, ge=0)
    """With `length_factor`: tolerance in tokens."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.length is not None and self.length_factor != 1.0:
            raise ValueError("length says how long an output is; leave out length_factor")
        return self

    @property
    def exact_length(self) -> int | None:
        return self.length

    @property
    def wants_length(self) -> bool:
        return self.length is not None or self.length_factor != 1.0

    def within_window(self, search: Search) -> Search:
        """`search`, or a `LengthWindow` around it if a length is set."""
        return LengthWindow(search, self.window, self.limits, self.length is None) if self.wants_length else search

    def window(self, natural: int) -> tuple[int, int]:
        """The minimum and maximum length of an output that would have `natural` tokens."""
        if self.length is not None:
            return self.length, self.length
        wanted = max(1, round(self.length_factor * natural))
        return max(1, wanted - self.length_slack), wanted + self.length_slack


class LengthWindow:
    """Gives outputs a wanted length: each within a window around the length that it would have by itself.

    Args:
        search: The search that finds the outputs.
        window: From an output's own length to its minimum and maximum length.
        limits: See `SearchConfig.limits`.
        measure_first: Whether to run the search without the window first, to learn its own length.
    """

    def __init__(
        self,
        search: Search,
        window: Callable[[int], tuple[int, int]],
        limits: Callable[[int, int | None, int], LengthLimits],
        measure_first: bool = True,
    ) -> None:
        self.inner = search
        self.window = window
        self.limits = limits
        self.measure_first = measure_first
        self.tgt_limit = search.tgt_limit

    def search(self, task: SearchTask, model: SearchModel) -> list[list[Hypothesis]]:
        natural = [0] * len(task.limits)
        if self.measure_first:
            natural = [
                len(best.tokens)
                for best, *_ in self.inner.search(replace(task, nbest=1, attention=False, watch=None), model)
            ]
        rules = task.constraints or [Constraints()] * len(task.limits)
        windows = [_widened(self.window(length), own) for length, own in zip(natural, rules, strict=True)]
        wanted = [replace(own, length=window) for own, window in zip(rules, windows, strict=True)]
        lengths = zip(task.src_lengths(), wanted, strict=True)
        tgt_limit = smallest([model.tgt_limit, self.tgt_limit])
        limits = [self.limits(length, tgt_limit, own.needed) for length, own in lengths]
        return self.inner.search(replace(task, constraints=wanted, limits=limits), model)


def _widened(window: tuple[int, int], constraints: Constraints) -> tuple[int, int]:
    """The window, widened if a prefix and required words need more tokens."""
    return window[0], max(window[1], constraints.needed)
