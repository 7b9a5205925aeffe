"""What every model is: the only thing that training, search, scoring and saving know of one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

from qkv.core.errors import UsageError
from qkv.data.batch import Batch
from qkv.models.heads.base import NO_CONTEXT, Head, HeadContext


class MaxLengths(NamedTuple):
    """The longest source and target that a model can read, END or the start symbol included; None: any length."""

    src: int | None = None
    tgt: int | None = None


class Output(NamedTuple):
    """What a model computes for each target position; its head makes probabilities of it."""

    states: Tensor
    """[B, T, D], or [R, W, D] for the new positions of an incremental pass."""
    context: HeadContext = NO_CONTEXT
    """What the head asked for, shaped as `states` but for the last axis."""


@runtime_checkable
class IncrementalState(Protocol):
    """All that was decoded so far, as a value: a pass gives a new one and leaves the old one as it was."""

    def reorder(self, rows: Tensor, sentences: Tensor) -> "IncrementalState":
        """New row r goes on from old row rows[r]; new sentence i is old sentence sentences[i].

        The rows of a new sentence all come from the old sentence that it was.
        """


@runtime_checkable
class Incremental(Protocol):
    """A model that appends to its output, without gradients. It has the weights of when it was made.

    Row = sentence x beams + beam.
    """

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> IncrementalState:
        """Read the sources [B, S]; every sentence gets `beams` equal rows, with nothing decoded yet."""

    def extend(self, tokens: Tensor, state: Any) -> tuple[Output, IncrementalState]:
        """Append the next W tokens of each row [R, W], the start symbol first."""


@runtime_checkable
class Blocks(Protocol):
    """An `Incremental` for wide passes, with states that can be truncated: what speculative decoding verifies by."""

    def encode(self, src: Tensor, src_keep: Tensor) -> Tensor:
        """Source ids [B, S] to memory."""

    def begin(self, memory: Tensor, src: Tensor, src_keep: Tensor, beams: int = 1) -> Any:
        """Nothing decoded yet."""

    def extend(self, tokens: Tensor, state: Any) -> tuple[Output, Any]:
        """Append the next W tokens of each row [R, W], the start symbol first."""


@dataclass(frozen=True)
class Inference:
    """What a model can do without gradients, each made with the weights of now; None: it cannot.

    With `attention`, the outputs hold cross-attention weights whether or not the head needs them.
    """

    steps: Callable[[bool], Incremental] | None = None
    """attention -> appends token by token."""
    blocks: Callable[[bool], Blocks] | None = None
    """attention -> verifies several tokens in one pass."""
    parallel: Callable[[], "Model"] | None = None
    """Fills all positions of an output at once."""
    reason: str = ""
    """Why something of this is None."""

    def require_steps(self, attention: bool = False) -> Incremental:
        """Raises UsageError with the reason if the model has no steps."""
        if self.steps is None:
            raise UsageError(self.reason)
        return self.steps(attention)

    def require_blocks(self, attention: bool = False) -> Blocks:
        """Raises UsageError with the reason if the model has no blocks."""
        if self.blocks is None:
            raise UsageError(self.reason)
        return self.blocks(attention)


class Model(nn.Module):
    """A batch to the states of its target positions; `head` makes probabilities of them."""

    kind: ClassVar[str]
    """As messages call it."""
    head: Head

    @property
    def limits(self) -> MaxLengths:
        """The longest source and target."""
        return MaxLengths()

    def forward(self, batch: Batch) -> Output:
        """Position t of the target sees the target up to t and the whole source."""
        raise NotImplementedError

    def inference(self) -> Inference:
        """What it can do without gradients."""
        raise NotImplementedError
