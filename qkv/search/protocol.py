"""What a search knows of a model: start with the source, then one token at a time, or blocks of several.

A search sees only these protocols, so one model, an ensemble of several, or a table in a test are the same to it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self

from torch import Tensor

from qkv.core.state import StepState


class StepOutput(NamedTuple):
    """What a step says about the next token of each row."""

    log_probs: Tensor
    """[R, V], normalised over what may be output; the others are -inf."""
    attention: Tensor | None
    """[R, S], the mean of the last layer's cross-attention heads; only from a step function that was asked for it."""


class ForcedOutput(NamedTuple):
    """What steps said about tokens that were given."""

    log_probs: Tensor
    """[B, W], of each token."""
    attention: Tensor | None
    """[B, W, S], see `StepOutput`."""


class StepFunction(Protocol):
    """Row = sentence x beams + beam."""

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> StepState:
        """Read the sources [B, S]; every sentence gets `beams` equal rows."""

    def step(self, tokens: Tensor, state: Any) -> tuple[StepOutput, StepState]:
        """Append the last token of each row [R], the start symbol first, and say what may follow.

        `state` is what `start` or `step` gave; each step function knows its own kind.
        """

    def force(self, tokens: Tensor, state: Any, beams: int) -> tuple[ForcedOutput, StepState]:
        """W steps of which it is known what they say: `tokens` [B, 1 + W] begin with the start symbol.

        `state` is what `start` gave; afterwards all tokens but the last one have been read by every row.
        """


class BlockOutput(NamedTuple):
    """What a pass says at each position of a block: as a step would, had the tokens before it been said."""

    log_probs: Tensor
    """[R, W, V], see `StepOutput`."""
    decoded: Tensor
    """[R, W, D], what the output head read."""
    attention: Tensor | None
    """[R, W, S], see `StepOutput`."""


class BlocksState(Protocol):
    """What each row has decoded so far; only the newest state of a run may be extended."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many tokens each row has been given, the start symbol counted."""

    def truncate(self, lengths: Sequence[int]) -> Self:
        """Row r forgets its tokens from lengths[r] on."""

    def select(self, rows: Sequence[int]) -> Self:
        """Only these rows, in this order."""


class BlockFunction(Protocol):
    """One row for each sentence."""

    def start(self, src: Tensor, src_keep: Tensor) -> tuple[Tensor, BlocksState]:
        """Read the sources [B, S]: their memory, and nothing decoded yet."""

    def extend(self, tokens: Tensor, state: Any) -> tuple[BlockOutput, BlocksState]:
        """Append tokens [R, W], the start symbol first, and say what may follow each of them."""
