"""What runs a search over token ids: PyTorch, or a faster program that holds the same model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from qkv.search.base import Constraints, SearchConfig
from qkv.search.hypothesis import Hypothesis


@dataclass(frozen=True)
class DecodeRequest:
    """How the sources of one batch are to be decoded."""

    search: SearchConfig
    nbest: int
    constraints: Sequence[Constraints]
    """One for each source."""
    attention: bool = False
    """Whether the hypotheses shall hold their cross-attention."""
    token_scores: bool = True
    """Whether the hypotheses shall hold the log-probability of each token; an engine that must compute them anyway
    gives them always, another one leaves the lists empty."""
    detokenize: Callable[[list[int]], str] | None = None
    """Tokens to text, for a search that compares texts."""
    after_step: Callable[[], None] = lambda: None
    """Called now and then; it stops the work by raising."""


class Engine(Protocol):
    """A model, or several that vote, ready to decode."""

    name: str
    parallel: int
    """How many threads may call `decode` at once, and keep the machine busy by it."""
    batch_tokens: int
    """How large a batch it likes: source tokens with padding, counted once for each hypothesis."""
    src_limit: int | None
    """The longest source, END included; None: any length."""

    def decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first. Sources end with END; one call is one batch."""
