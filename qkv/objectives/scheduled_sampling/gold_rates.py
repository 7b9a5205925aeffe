"""How often the decoder reads the gold token, over the updates of a run."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from qkv.config.base import Config, Kinds
from qkv.functional.schedules import exponential_gold, inverse_sigmoid_gold, linear_gold


@dataclass(frozen=True, kw_only=True)
class GoldRate:
    """The probability that the decoder reads a gold token.

    Args:
        after: Updates of plain teacher forcing before the rate starts to fall.
        floor: The rate never falls below this.
    """

    after: int = 0
    floor: float = 0.0

    def __call__(self, update: int) -> float:
        """`update` counts from 1."""
        return 1.0 if update <= self.after else self.decay(update - self.after)

    def decay(self, n: int) -> float:
        """The rate at the n-th update after `after`."""
        raise NotImplementedError


class GoldRateConfig(Config):
    """The probability that the decoder reads a gold token, over the updates of the run."""

    kind: str
    after: int = Field(default=0, ge=0)
    """Updates of plain teacher forcing before the rate starts to fall."""
    floor: float = Field(default=0.0, ge=0, le=1)
    """The rate never falls below this."""

    def build(self) -> GoldRate:
        raise NotImplementedError


gold_rates = Kinds[GoldRateConfig]("gold rate")
AnyGoldRate = Annotated[GoldRateConfig, gold_rates]


@gold_rates.register
class LinearGoldConfig(GoldRateConfig):
    """max(floor, 1 - n / updates)"""

    kind: Literal["linear"] = "linear"
    updates: int = Field(default=10_000, ge=1)
    """After this many updates the rate would be 0."""

    def build(self) -> "LinearGold":
        return LinearGold(after=self.after, floor=self.floor, updates=self.updates)


@dataclass(frozen=True, kw_only=True)
class LinearGold(GoldRate):
    """max(floor, 1 - n / updates)"""

    updates: int

    def decay(self, n: int) -> float:
        return linear_gold(n, 1 / self.updates, self.floor)


@gold_rates.register
class ExponentialGoldConfig(GoldRateConfig):
    """max(floor, kⁿ)"""

    kind: Literal["exponential"] = "exponential"
    k: float = Field(default=0.9999, gt=0, lt=1)
    """The factor of each update."""

    def build(self) -> "ExponentialGold":
        return ExponentialGold(after=self.after, floor=self.floor, k=self.k)


@dataclass(frozen=True, kw_only=True)
class ExponentialGold(GoldRate):
    """max(floor, kⁿ)"""

    k: float

    def decay(self, n: int) -> float:
        return exponential_gold(n, self.k, self.floor)


@gold_rates.register
class InverseSigmoidGoldConfig(GoldRateConfig):
    """max(floor, k / (k + exp(n / k)))"""

    kind: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    k: float = Field(default=1000.0, ge=1)
    """The larger, the later the rate falls: it is one half at n = k ln k."""

    def build(self) -> "InverseSigmoidGold":
        return InverseSigmoidGold(after=self.after, floor=self.floor, k=self.k)


@dataclass(frozen=True, kw_only=True)
class InverseSigmoidGold(GoldRate):
    """max(floor, k / (k + exp(n / k)))"""

    k: float

    def decay(self, n: int) -> float:
        return inverse_sigmoid_gold(n, self.k, self.floor)
