"""What differs between the non-autoregressive models: how long a canvas is, and how an output is read off it.

The file of a decoder kind registers its reader here, under the name of the kind; what can be set for it stands in the
reader's config.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.core.errors import UsageError
from qkv.models.parallel.base import EncodedSource
from qkv.search.base import LengthLimits
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.canvas import Pass
from qkv.text.special import NEVER_OUTPUT, SPECIAL


@dataclass(frozen=True)
class Wanted:
    """How many tokens an output shall have."""

    factor: float = 1.0
    """Times what the model would write by itself."""
    length: int | None = None
    """Exactly so many."""
    length_beam: int = 1
    """Lengths that are tried."""

    @property
    def plain(self) -> bool:
        return self.length is None and self.factor == 1.0

    def check(self, capacities: Tensor, source: EncodedSource) -> None:
        """Refuse a length for which the canvas of one of the sources has no room."""
        if self.length is not None and self.length > (least := int(capacities.min())):
            raise UsageError(
                f"search.length {self.length} is outside the canvas: a source of {int(source.lengths.min())} "
                f"tokens has room for {least}"
            )

    def of(self, natural: int, limits: LengthLimits) -> int:
        """The length in place of the `natural` one."""
        if self.length is not None:
            return self.length
        return max(1, min(round(self.factor * natural), limits.max_length))


class Reader:
    """Reads outputs off the canvases of one model; one object for one call."""

    never: tuple[int, ...] = (*NEVER_OUTPUT, SPECIAL.eos)
    """Tokens that do not come out."""
    top = 1
    """How many tokens of each position it wants to know."""
    ask: int | None = None
    """A token whose log p it wants to know at each position."""
    penalty = 0.0
    """Taken from the logit of that token."""

    def lengths(self, source: EncodedSource, limits: Sequence[LengthLimits]) -> Tensor:
        """[B, C]: the lengths of the C canvases of each sentence."""
        raise NotImplementedError

    def read(self, filled: Pass, row: int, length: int, limits: LengthLimits) -> list[Hypothesis]:
        """What one canvas says, best first."""
        raise NotImplementedError


class ReaderConfig(Config):
    """What can be set for the outputs of one kind of decoder."""

    kind: str
    passes: ClassVar[int] = 1
    """How many passes it takes if nobody says."""
    tries_lengths: ClassVar[bool] = False
    """Whether its decoder predicts a length, so that several of them can be tried."""
    grid: ClassVar[Sequence[Mapping[str, str]]] = ()
    """Settings of the search that `qkv tune` tries for such a model, the quickest first."""

    @property
    def outputs(self) -> int:
        """The most that one canvas can give."""
        return 1

    def problem(self, wanted: Wanted, passes: int) -> str | None:
        """What of the search does not go with these settings, if anything."""
        return None

    def build(self, model: Any, wanted: Wanted) -> Reader:
        """For a model of this kind."""
        raise NotImplementedError

    def read_tokens(self, tokens: list[int], scores: list[float], limits: LengthLimits, last_id: int) -> Hypothesis:
        """What a canvas says by its most probable tokens alone: for engines that have no more. `last_id` is the last
        id of the model's output.
        """
        raise NotImplementedError


readers = Kinds[ReaderConfig]("reader")


def reader_of(kind: str) -> type[ReaderConfig]:
    """The reader of a kind of decoder; raises UsageError if none is registered."""
    if kind not in readers.names():
        raise UsageError(f"the decoder {kind} has no reader; register one in the module that registers it")
    return readers[kind]


def cut(tokens: list[int], scores: list[float], score: float, limits: LengthLimits) -> Hypothesis:
    """Not longer than the limit, and says so."""
    most = limits.max_length
    return Hypothesis(tokens[:most], scores[:most], score, ended=len(tokens) <= most)
