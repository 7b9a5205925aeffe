"""What differs between non-autoregressive decoders: the length of a canvas, and how its output is read.

The file of a decoder kind registers its reader here, under the name of the kind; its settings are in the
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
    """The requested length of outputs."""

    factor: float = 1.0
    """Relative to the model's own length."""
    length: int | None = None
    """Exact number of tokens."""
    length_beam: int = 1
    """Number of lengths that are tried."""

    @property
    def plain(self) -> bool:
        return self.length is None and self.factor == 1.0

    def check(self, capacities: Tensor, source: EncodedSource) -> None:
        """Reject a length that does not fit the canvas of one of the sources."""
        if self.length is not None and self.length > (least := int(capacities.min())):
            raise UsageError(
                f"search.length {self.length} is outside the canvas: a source of {int(source.lengths.min())} "
                f"tokens has room for {least}"
            )

    def of(self, natural: int, limits: LengthLimits) -> int:
        """The requested length, given the `natural` one."""
        if self.length is not None:
            return self.length
        return max(1, min(round(self.factor * natural), limits.max_length))


class Reader:
    """Reads outputs from the canvases of one model; one object per call."""

    never: tuple[int, ...] = (*NEVER_OUTPUT, SPECIAL.eos)
    """Tokens that are never output."""
    top = 1
    """The number of best tokens that it needs at each position."""
    ask: int | None = None
    """A token whose log p it needs at each position."""
    penalty = 0.0
    """Subtracted from the logit of that token."""

    def lengths(self, source: EncodedSource, limits: Sequence[LengthLimits]) -> Tensor:
        """[B, C]: the lengths of the C canvases of each sentence."""
        raise NotImplementedError

    def read(self, filled: Pass, row: int, length: int, limits: LengthLimits) -> list[Hypothesis]:
        """The outputs of one canvas, best first."""
        raise NotImplementedError


class ReaderConfig(Config):
    """The settings of the reader of one decoder kind."""

    kind: str
    passes: ClassVar[int] = 1
    """The default number of passes."""
    tries_lengths: ClassVar[bool] = False
    """Whether its decoder predicts a length, so that several can be tried."""
    grid: ClassVar[Sequence[Mapping[str, str]]] = ()
    """Settings of the search that `qkv tune` tries for such a model, the quickest first."""

    @property
    def outputs(self) -> int:
        """The maximum number of outputs of one canvas."""
        return 1

    def problem(self, wanted: Wanted, passes: int) -> str | None:
        """Why the search does not support these settings; None: it does."""
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


def reader_problem(reader: ReaderConfig | None, kind: str) -> str | None:
    """Why a model of this kind cannot be decoded with `reader`; None: it can."""
    if reader is None or reader.kind == kind:
        return None
    keys = [
        f"search.{key}" for key, field in type(reader).model_fields.items() if getattr(reader, key) != field.default
    ]
    return f"{', '.join(keys)} is for models of the kind {reader.kind}, not {kind}; leave it out" if keys else None


def reader_for(reader: ReaderConfig | None, kind: str) -> ReaderConfig:
    """`reader` if it is for models of this kind, else that of the kind."""
    return reader_of(kind)() if reader is None or reader.kind != kind else reader


def cut(tokens: list[int], scores: list[float], score: float, limits: LengthLimits) -> Hypothesis:
    """Cut at the limit, and marked as such."""
    most = limits.max_length
    return Hypothesis(tokens[:most], scores[:most], score, ended=len(tokens) <= most)
