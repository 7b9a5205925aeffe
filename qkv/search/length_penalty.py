"""Length penalties, by which log p(Y | X) is divided, and when a beam search that ranks by them may stop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import Field

from qkv.config.base import Config, Kinds


class LengthPenaltyConfig(Config):
    """Lengths include END, unless the output was cut."""

    def at(self, length: int) -> float:
        raise NotImplementedError


length_penalties = Kinds[LengthPenaltyConfig]("length penalty")
AnyLengthPenalty = Annotated[LengthPenaltyConfig, length_penalties]


@length_penalties.register
class Power(LengthPenaltyConfig):
    """|Y|^alpha; with alpha 1 the score is the mean of the tokens' log-probabilities."""

    kind: Literal["power"] = "power"
    alpha: float = Field(default=1.0, ge=-10, le=10)
    """0: no penalty; larger prefers longer outputs."""

    def at(self, length: int) -> float:
        return float(max(length, 1) ** self.alpha)


@length_penalties.register
class Gnmt(LengthPenaltyConfig):
    """((5 + |Y|) / 6)^alpha (Wu 2016)."""

    kind: Literal["gnmt"] = "gnmt"
    alpha: float = Field(default=0.6, ge=-10, le=10)
    """0: no penalty; larger prefers longer outputs."""

    def at(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.alpha)


@length_penalties.register
class NoLengthPenalty(LengthPenaltyConfig):
    """1: the score is log p(Y | X) itself."""

    kind: Literal["none"] = "none"

    def at(self, length: int) -> float:
        return 1.0


StoppingName = Literal["heuristic", "enough", "exact"]
LengthPenalty = Callable[[int], float]


@dataclass(frozen=True)
class Standing:
    """The state of the search for one sentence."""

    finished: Sequence[float]
    """The scores of the hypotheses that ended, best first."""
    best_live: float
    """log p of the best live one."""
    length: int
    """The number of tokens of the live ones."""
    max_length: int


class StoppingRule(Protocol):
    def __call__(self, standing: Standing) -> bool:
        """Whether the sentence is done."""


@dataclass(frozen=True)
class Enough:
    """Stop when `count` hypotheses have ended, whatever their scores."""

    count: int

    def __call__(self, standing: Standing) -> bool:
        return len(standing.finished) >= self.count


@dataclass(frozen=True)
class Exact:
    """`wanted` hypotheses have ended, and no live one can become better than these, whatever follows it.

    log p only decreases, and a length penalty is largest at one end of the remaining lengths.
    """

    wanted: int
    length_penalty: LengthPenalty

    def __call__(self, standing: Standing) -> bool:
        if len(standing.finished) < self.wanted:
            return False
        largest = max(self.length_penalty(standing.length + 1), self.length_penalty(standing.max_length))
        return standing.finished[self.wanted - 1] >= standing.best_live / largest


@dataclass(frozen=True)
class Heuristic:
    """`count` hypotheses have ended, and none that lives would be better than the worst of the best `count` if it ended
    in the next step with probability 1.

    After more steps it could be, since each token divides log p by more: hence a heuristic. Where `exact` knows earlier
    that nothing better can come, the sentence is done as well.
    """

    count: int
    exact: Exact

    def __call__(self, standing: Standing) -> bool:
        if self.exact(standing):
            return True
        if len(standing.finished) < self.count:
            return False
        at_best = standing.best_live / self.exact.length_penalty(standing.length + 1)
        return standing.finished[self.count - 1] >= at_best
