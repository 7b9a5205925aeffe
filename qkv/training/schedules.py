"""Learning-rate schedules by `kind:`; the formulas are in `functional/schedules.py`."""

from typing import Annotated, Literal

from pydantic import Field

from qkv.config.base import Config, Kinds
from qkv.functional import schedules as formulas


class ScheduleConfig(Config):
    """The learning rate over the run."""

    kind: str
    warmup: int
    """Updates until the maximum rate."""

    def rate(self, update: int, fraction: float, d_model: int, warmed: float = 0.0) -> float:
        """The rate of one update.

        Args:
            update: Its number, from 1.
            fraction: How much of `training.stop_after` was done before it.
            d_model: Width of the model.
            warmed: How much was done before the last update of the warm-up; `fraction` while the warm-up lasts.
        """
        raise NotImplementedError


schedules = Kinds[ScheduleConfig]("schedule")
"""Registry of the learning-rate schedules."""
AnySchedule = Annotated[ScheduleConfig, schedules]


@schedules.register
class NoamConfig(ScheduleConfig):
    """factor d_model^-1/2 min(n^-1/2, n warmup^-3/2), equation 3 of the paper."""

    kind: Literal["noam"] = "noam"
    warmup: int = Field(default=4000, ge=1)
    """Updates until the maximum rate."""
    factor: float = Field(default=1.0, gt=0)
    """Multiplies the whole curve."""

    def rate(self, update: int, fraction: float, d_model: int, warmed: float = 0.0) -> float:
        return formulas.noam(update, d_model, self.warmup, self.factor)


@schedules.register
class InverseSqrtConfig(ScheduleConfig):
    """Linear to the peak over the warm-up, then peak sqrt(warmup / n)."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    peak: float = Field(default=5e-4, gt=0)
    """Maximum rate, reached at the end of the warm-up."""
    warmup: int = Field(default=4000, ge=1)
    """Updates until the maximum rate."""
    start: float = Field(default=0.0, ge=0)
    """Rate before the first update."""

    def rate(self, update: int, fraction: float, d_model: int, warmed: float = 0.0) -> float:
        return formulas.inverse_sqrt(update, self.peak, self.warmup, self.start)


@schedules.register
class CosineScheduleConfig(ScheduleConfig):
    """Linear to the peak over the warm-up, then half a cosine to the floor at the end of the run."""

    kind: Literal["cosine"] = "cosine"
    peak: float = Field(default=5e-4, gt=0)
    """Maximum rate, reached at the end of the warm-up."""
    warmup: int = Field(default=0, ge=0)
    """Updates of linear warm-up."""
    floor: float = Field(default=0.0, ge=0)
    """Rate at the end of the run."""

    def rate(self, update: int, fraction: float, d_model: int, warmed: float = 0.0) -> float:
        decayed = formulas.after_warm_up(fraction, warmed)
        return formulas.warm_up(update, self.warmup) * formulas.cosine(decayed, self.peak, self.floor)


@schedules.register
class LinearConfig(ScheduleConfig):
    """Linear to the peak over the warm-up, then linearly down to the floor at the end of the run."""

    kind: Literal["linear"] = "linear"
    peak: float = Field(default=5e-4, gt=0)
    """Maximum rate, reached at the end of the warm-up."""
    warmup: int = Field(default=0, ge=0)
    """Updates of linear warm-up."""
    floor: float = Field(default=0.0, ge=0)
    """Rate at the end of the run."""

    def rate(self, update: int, fraction: float, d_model: int, warmed: float = 0.0) -> float:
        decayed = formulas.after_warm_up(fraction, warmed)
        return formulas.warm_up(update, self.warmup) * formulas.linear(decayed, self.peak, self.floor)


@schedules.register
class ConstantConfig(ScheduleConfig):
    """A constant rate after the warm-up."""

    kind: Literal["constant"] = "constant"
    peak: float = Field(default=5e-4, gt=0)
    """The rate."""
    warmup: int = Field(default=0, ge=0)
    """Updates of linear warm-up."""

    def rate(self, update: int, fraction: float, d_model: int, warmed: float = 0.0) -> float:
        return formulas.constant(update, self.peak, self.warmup)


@schedules.register
class WarmUpStableDecayConfig(ScheduleConfig):
    """Linear to the peak over the warm-up, the peak for most of the run, then linearly down to the floor.

    Until the decay begins, the rate does not depend on how long the run will be: a run can be extended by resuming it
    with a larger `training.stop_after`, as if it had been planned that way.
    """

    kind: Literal["wsd"] = "wsd"
    peak: float = Field(default=5e-4, gt=0)
    """Maximum rate."""
    warmup: int = Field(default=0, ge=0)
    """Updates of linear warm-up."""
    decay: float = Field(default=0.2, gt=0, le=1)
    """The part of the run, at its end, over which the rate falls."""
    floor: float = Field(default=0.0, ge=0)
    """Rate at the end of the run."""

    def rate(self, update: int, fraction: float, d_model: int, warmed: float = 0.0) -> float:
        rise = formulas.warm_up(update, self.warmup)
        return rise * formulas.stable_then_linear(fraction, self.peak, self.decay, self.floor)
