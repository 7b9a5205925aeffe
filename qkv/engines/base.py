"""The engine interface: runs a search over token ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from qkv.engines.alignments import AlignmentHead
from qkv.search.base import Constraints, SearchConfig, Watch
from qkv.search.hypothesis import Hypothesis


@dataclass(frozen=True)
class DecodeRequest:
    """How to decode the sources of one batch."""

    search: SearchConfig
    nbest: int
    constraints: Sequence[Constraints]
    """One per source."""
    attention: bool | AlignmentHead = False
    """Whether hypotheses include cross-attention weights, and of which head; True: the mean over the last layer's."""
    token_scores: bool = True
    """Whether hypotheses include the log-probability of each token. Without it, an engine may leave the lists empty."""
    detokenize: Sequence[Callable[[list[int]], str]] = ()
    """Tokens to text, one per source, for a search that compares texts."""
    copies: bool = False
    """Whether hypotheses include what each token copies."""
    after_step: Callable[[], None] = lambda: None
    """Called regularly; it may stop the work by raising."""
    likely: int = 0
    """How many of the most probable tokens of each place hypotheses include."""
    watch: Watch | None = None
    """Called after each step with what is written so far, by a search that writes token by token."""

    @property
    def obstacles(self) -> list[str]:
        """What only the engine torch can give."""
        wanted = {"likely tokens for each position": self.likely, "partial outputs": self.watch}
        wanted["attention of a chosen head"] = isinstance(self.attention, AlignmentHead)
        return [f"it gives no {what}" for what, asked in wanted.items() if asked]


class Engine(Protocol):
    """A model or an ensemble, ready to decode."""

    name: str
    parallel: int
    """The number of threads that should call `decode` concurrently."""
    batch_tokens: int
    """Its preferred batch size: source tokens with padding, counted once per hypothesis."""
    src_limit: int | None
    """The longest source, END included; None: any length."""

    def decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first. Sources end with END; one call is one batch."""
