"""Length penalties: log p(Y | X) is divided by one of them, so that long outputs are not penalised."""

from typing import Annotated, Literal

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
