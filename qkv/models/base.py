"""The Model interface: all that training, search, scoring and saving know of a model."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from qkv.core.errors import UsageError
from qkv.core.state import StepState
from qkv.layers.embedding import TokenEmbedding
from qkv.models.heads.base import NO_CONTEXT, Head, HeadContext


class MaxLengths(NamedTuple):
    """The longest source and target that a model can read, END or the start symbol included; None: any length."""

    src: int | None = None
    tgt: int | None = None


class Output(NamedTuple):
    """The states of a model for each target position, and the context of its head."""

    states: Tensor
    """[B, T, D], or [R, W, D] for the new positions of an incremental pass."""
    context: HeadContext = NO_CONTEXT
    """What the head needs; the same shape as `states` except for the last axis."""


@runtime_checkable
class Incremental(Protocol):
    """Incremental decoding without gradients. It copies the weights when it is created.

    Row = sentence x beams + beam.
    """

    @property
    def head(self) -> Head:
        """Maps its outputs to probabilities."""

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> StepState:
        """Read the sources [B, S]; every sentence gets `beams` equal rows."""

    def extend(self, tokens: Tensor, state: Any) -> tuple[Output, StepState]:
        """Append the next W tokens of each row [R, W], the start symbol first."""


@runtime_checkable
class Blocks(Protocol):
    """An `Incremental` with states that can be truncated, for verification in speculative decoding."""

    @property
    def head(self) -> Head:
        """Maps its outputs to probabilities."""

    def encode(self, src: Tensor, src_keep: Tensor) -> Tensor:
        """Source ids [B, S] to memory."""

    def begin(self, memory: Tensor, src: Tensor, src_keep: Tensor, beams: int = 1) -> Any:
        """The initial state."""

    def extend(self, tokens: Tensor, state: Any) -> tuple[Output, Any]:
        """Append the next W tokens of each row [R, W], the start symbol first."""


@runtime_checkable
class Static(Protocol):
    """Steps whose tensors have the same shapes from one to the next. A state is usable until the rows are reordered."""

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> Any:
        """Read the sources [B, S]; every sentence gets `beams` equal rows."""

    def step(self, tokens: Tensor, state: Any) -> tuple[tuple[Tensor, Tensor | None], Any]:
        """The last token of each row [R] to log-probabilities [R, V], and cross-attention [R, S] if it was wanted."""


@runtime_checkable
class Parallel(Protocol):
    """Fills all positions of an output at once, without gradients.

    A canvas [R, T] holds ids: MASK where it is open, a token where it is known, padding after its end.
    """

    @property
    def kind(self) -> str:
        """The kind of its decoder, by which its outputs are read."""

    @property
    def head(self) -> Head:
        """Maps what `fill` returns to probabilities."""

    @property
    def limits(self) -> MaxLengths:
        """The longest source and canvas."""

    def read(self, src: Tensor, src_keep: Tensor) -> Any:
        """Encode the sources [B, S]."""

    def fill(self, tgt_in: Tensor, source: Any) -> Tensor:
        """The states [R, T, D] of all positions of canvases [R, T], one for each source; those of padding are
        undefined."""


@dataclass(frozen=True)
class Inference:
    """What a model supports at inference; each object copies the present weights. None: not supported.

    With `attention`, outputs include cross-attention weights whether or not the head needs them.
    """

    steps: Callable[[bool], Incremental] | None = None
    """attention -> decoding token by token."""
    blocks: Callable[[bool], Blocks] | None = None
    """attention -> verification of several tokens in one pass."""
    parallel: Callable[[], Parallel] | None = None
    """Fills all positions of an output at once."""
    static: Callable[[bool, Sequence[int]], Static] | None = None
    """(attention, ids that are never output) -> decoding token by token, by steps of fixed shapes."""
    reason: str = ""
    """Why one of the first three is None, and what to use instead."""

    def require_steps(self, attention: bool = False) -> Incremental:
        """Raises UsageError with the reason if the model has no steps."""
        if self.steps is None:
            raise UsageError(self.reason)
        return self.steps(attention)

    def require_static(self, attention: bool, never: Sequence[int]) -> Static:
        """Raises UsageError if the model has no steps of fixed shapes."""
        if self.static is None:
            raise UsageError("static shapes: only the autoregressive Transformer has them; leave them out")
        return self.static(attention, never)

    def require_blocks(self, attention: bool = False) -> Blocks:
        """Raises UsageError with the reason if the model has no blocks."""
        if self.blocks is None:
            raise UsageError(self.reason)
        return self.blocks(attention)

    def require_parallel(self) -> Parallel:
        """Raises UsageError with the reason if the model does not fill all positions at once."""
        if self.parallel is None:
            raise UsageError(self.reason)
        return self.parallel()


class Adapted(NamedTuple):
    """What a model starts with where the weights of another one do not fit as they are."""

    weights: dict[str, Tensor]
    """By the names of its parameters."""
    remark: str = ""
    """What could not be used, for people; empty: nothing."""


class Model(nn.Module):
    """A batch to the states of its target positions; `head` maps them to probabilities."""

    kind: ClassVar[str]
    """Its name in messages."""
    starts_from: ClassVar[tuple[str, ...]] = ()
    """Other kinds of model whose weights `start_from` may give to the parts that both have."""
    head: Head

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        """The embedding of the target tokens that the decoder reads."""
        raise NotImplementedError

    @property
    def limits(self) -> MaxLengths:
        """The longest source and target."""
        return MaxLengths()

    def forward(self, batch: Any) -> Output:
        """The states of a batch of its data task; from source to target, position t attends to the target up to t and
        to the whole source."""
        raise NotImplementedError

    def inference(self) -> Inference:
        """What it supports at inference."""
        raise NotImplementedError

    def adapted(self, other: "Model", classes: Sequence[int] | None) -> Adapted:
        """Weights that replace those of `other`, the model that it starts from, where sizes or classes differ.

        `classes[i]` is the number in `other` of its own class i; None: the two do not name the same classes. All other
        weights are copied, and a difference in shape is an error.
        """
        return Adapted({})

    def watch_cross_attention(self, layers: Sequence[int] | None = None) -> AbstractContextManager[list[Tensor]]:
        """The weights [B, H, T, S] of each pass through these decoder layers (counted from 1; None: all).

        They have gradients and are those before dropout; the list is filled when the block ends. A layer that is
        shared by several depths gives the weights of each of them.
        """
        raise UsageError(f"a model of the kind {self.kind} has no cross-attention")
