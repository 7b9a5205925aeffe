"""What differs between the non-autoregressive models: how long a canvas is, and how an output is read off it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from qkv.core.errors import UsageError
from qkv.models.parallel.base import Source
from qkv.search.base import Limits
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.canvas import Pass
from qkv.text.special import NEVER_OUTPUT, SPECIAL

PathName = Literal["greedy", "lookahead", "best"]


@dataclass(frozen=True)
class Wanted:
    """How many tokens an output shall have, and how many outputs are looked at."""

    factor: float
    """Times what the model would write by itself."""
    length: int | None
    """Exactly so many."""
    length_beam: int = 1
    """Lengths that are tried."""
    beam: int = 1
    """Prefixes that are kept."""
    path: PathName = "lookahead"
    """How a path through a graph is found."""
    blank_penalty: float = 0.0
    """Taken from the logit of the blank at every position."""

    @property
    def plain(self) -> bool:
        return self.length is None and self.factor == 1.0

    def check(self, capacities: Tensor, source: Source) -> None:
        """Refuse a length for which the canvas of one of the sources has no room."""
        if self.length is not None and self.length > (least := int(capacities.min())):
            raise UsageError(
                f"search.length {self.length} is outside the canvas: a source of {int(source.lengths.min())} "
                f"tokens has room for {least}"
            )

    def of(self, natural: int, limits: Limits) -> int:
        """The length in place of the `natural` one."""
        if self.length is not None:
            return self.length
        return max(1, min(round(self.factor * natural), limits.max_length))


class Generator:
    """How one kind of model is decoded; one object for one call."""

    passes = 1
    """How many passes it takes if nobody says."""
    never: tuple[int, ...] = (*NEVER_OUTPUT, SPECIAL.eos)
    """Tokens that do not come out."""
    top = 1
    """How many tokens of each position it wants to know."""
    ask: int | None = None
    """A token whose log p it wants to know at each position."""
    penalty = 0.0
    """Taken from the logit of that token."""

    tries_lengths = False
    """Whether a beam of lengths means something to it."""
    keeps_prefixes = False
    """Whether a beam of prefixes means something to it."""
    has_paths = False
    """Whether its canvas is a graph with paths through it."""
    has_blanks = False
    """Whether a position may say nothing."""

    def lengths(self, source: Source, limits: Sequence[Limits]) -> Tensor:
        """[B, C]: the lengths of the C canvases of each sentence."""
        raise NotImplementedError

    def read(self, filled: Pass, row: int, length: int, limits: Limits) -> list[Hypothesis]:
        """What one canvas says, best first."""
        raise NotImplementedError


def cut(tokens: list[int], scores: list[float], score: float, limits: Limits) -> Hypothesis:
    """Not longer than the limit, and says so."""
    most = limits.max_length
    return Hypothesis(tokens[:most], scores[:most], score, ended=len(tokens) <= most)
