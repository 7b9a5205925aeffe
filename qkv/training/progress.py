"""Progress of a training run."""

import sys
from dataclasses import dataclass
from typing import Protocol

from qkv.core import progress
from qkv.core.progress import clock
from qkv.training.run.state import TrainState

WINDOW = 50
"""The approximate number of updates in a moving mean."""


class MovingMean:
    """sum / weight over recent updates, with exponentially decaying weights; the first update is its own mean."""

    def __init__(self) -> None:
        self._sum = self._weight = 0.0

    def add(self, total: float, weight: float) -> float:
        """The mean with one more update, whose sum is `total`."""
        self._sum += total - self._sum / WINDOW
        self._weight += weight - self._weight / WINDOW
        return self._sum / self._weight


@dataclass(frozen=True)
class UpdateInfo:
    """One update, for the display."""

    state: TrainState
    loss: float
    """Mean per target token over recent updates."""
    tokens_per_second: float
    """Over the last updates."""
    learning_rate: float
    fraction: float
    """The completed fraction of the run."""
    seconds_left: float


class TrainingReporter(progress.Reporter, Protocol):
    """Receives the progress of a run."""

    def update(self, info: UpdateInfo) -> None:
        """After each update."""


def summary(info: UpdateInfo) -> str:
    """The state in one line."""
    done = info.state.progress
    scores = "  ".join(f"dev {name} {value:.4g}" for name, value in info.state.last_scores.items())
    return (
        f"update {done.updates:,}  epoch {done.epochs:.2f}  loss {info.loss:.4f}  "
        f"{info.tokens_per_second:,.0f} tokens/s  lr {info.learning_rate:.2e}  "
        f"{clock(info.seconds_left)} left  {scores}"
    ).rstrip()


class PlainTrainingReporter(progress.PlainReporter):
    """Lines for logs."""

    def update(self, info: UpdateInfo) -> None:
        if self.due():
            self.say(summary(info))


class LiveTrainingReporter(progress.LiveReporter):
    """A progress bar with the state, for terminals."""

    def update(self, info: UpdateInfo) -> None:
        self.bar.update(self.task, description=summary(info), completed=info.fraction, total=1.0)


class SilentTrainingReporter(progress.SilentReporter):
    """Reports nothing: for ranks other than 0, and for programs that want no output.

    Examples:
        >>> from qkv import SilentTrainingReporter, Trainer
        >>> Trainer.resume("runs/reverse", reporter=SilentTrainingReporter()).train().updates
        2
    """

    def update(self, info: UpdateInfo) -> None:
        pass


def default_training_reporter() -> TrainingReporter:
    """A bar on a terminal, else lines; nothing where there is no stderr."""
    if sys.stderr is None:
        return SilentTrainingReporter()
    return LiveTrainingReporter() if sys.stderr.isatty() else PlainTrainingReporter()
