"""What a search gives, and what it holds while it searches."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from qkv.errors import QkvError


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search."""

    tokens: list[int]
    """Without the start symbol and END."""
    token_scores: list[float]
    """log p of each token; one more for END if it ended."""
    score: float
    """What the search ranks by; higher is better."""
    ended: bool
    """False: it never said END, but was cut at the longest length or where no token was allowed any more."""
    attention: list[list[float]] | None = None
    """[tokens][source], a row for each token but END; only from a step function that tells it."""
    passes: int | None = None
    """How many passes of the decoder it took; only where a pass may give several tokens."""


@dataclass(eq=False, slots=True)
class Partial:
    """A hypothesis in the making: its last token, and through `parent` those before it.

    It grows by one object and shares all the rest, so that a beam copies no histories.
    """

    parent: "Partial | None" = None
    token: int = -1
    log_prob: float = 0.0
    attention: Tensor | None = None
    """[S], the weights with which the last token was chosen."""
    total: float = 0.0
    """log p of all tokens."""
    length: int = 0
    """The number of tokens, END included once it was said."""

    def extended(self, token: int, log_prob: float, attention: Tensor | None) -> "Partial":
        return Partial(self, token, log_prob, attention, self.total + log_prob, self.length + 1)

    def tokens(self) -> list[int]:
        return [node.token for node in self._nodes()][::-1]

    def attentions(self) -> list[Tensor]:
        return [node.attention for node in self._nodes() if node.attention is not None][::-1]

    def hypothesis(self, score: float, ended: bool, src_length: int) -> Hypothesis:
        """Ready to be given away. `ended` says that the last token is END, which is not written."""
        written = self.length - 1 if ended else self.length
        weights = self.attentions()
        attention = [row[:src_length].tolist() for row in weights[:written]] if weights else None
        scores = [node.log_prob for node in self._nodes()][::-1]
        return Hypothesis(self.tokens()[:written], scores, score, ended, attention)

    def _nodes(self) -> Iterator["Partial"]:
        """From the last token to the first."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


def not_a_number() -> QkvError:
    """What a search raises when a probability is NaN."""
    return QkvError(
        "the model's output is not a number (NaN), so its weights are damaged: use an earlier checkpoint of the run"
    )
