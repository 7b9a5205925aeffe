"""What a run tells people while it goes on: a live display on a terminal, plain lines elsewhere; all on stderr."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TextIO

from qkv.training.state import TrainState


@dataclass(frozen=True)
class UpdateInfo:
    """One update, for the display."""

    state: TrainState
    loss: float
    tokens_per_second: float
    learning_rate: float
    fraction: float
    """How much of the run is done."""
    seconds_left: float


class Reporter(Protocol):
    """Anything that wants to know how a run goes."""

    def say(self, sentence: str) -> None:
        """Something worth a line."""

    def counting(self, what: str) -> Callable[[int, int | None], None]:
        """A function that is called with (done, total or None) while `what` goes on."""

    def update(self, info: UpdateInfo) -> None:
        """After each update."""

    def close(self) -> None:
        """No more calls."""


def summary(info: UpdateInfo) -> str:
    """The whole state in a line."""
    progress = info.state.progress
    scores = "  ".join(f"dev {name} {value:.4g}" for name, value in info.state.last_scores.items())
    return (
        f"update {progress.updates:,}  epoch {progress.epochs:.2f}  loss {info.loss:.4f}  "
        f"{info.tokens_per_second:,.0f} tokens/s  lr {info.learning_rate:.2e}  "
        f"{_clock(info.seconds_left)} left  {scores}"
    ).rstrip()


def _clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class PlainReporter:
    """Lines for logs, one every few seconds at most."""

    def __init__(self, stream: TextIO | None = None, every: float = 10.0) -> None:
        self.stream = stream or sys.stderr
        self.every = every
        self.last = 0.0

    def say(self, sentence: str) -> None:
        print(sentence, file=self.stream, flush=True)

    def counting(self, what: str) -> Callable[[int, int | None], None]:
        def count(done: int, total: int | None) -> None:
            if self._due():
                self.say(what + (f": {done:,}" if done else "") + (f" of {total:,}" if done and total else ""))

        return count

    def update(self, info: UpdateInfo) -> None:
        if self._due():
            self.say(summary(info))

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self.last < self.every:
            return False
        self.last = now
        return True

    def close(self) -> None:
        pass


class LiveReporter:
    """A bar with the state beside it, for terminals."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        self.console = Console(stderr=True)
        self.bar = Progress(
            BarColumn(bar_width=12),
            # On a narrow terminal the end is left out rather than put on a second line.
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("Starting", total=None)
        self.bar.start()

    def say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False)

    def counting(self, what: str) -> Callable[[int, int | None], None]:
        def count(done: int, total: int | None) -> None:
            text = f"{what}: {done:,}" if done else what
            self.bar.update(self.task, description=text, completed=done, total=total)

        return count

    def update(self, info: UpdateInfo) -> None:
        self.bar.update(self.task, description=summary(info), completed=info.fraction, total=1.0)

    def close(self) -> None:
        self.bar.stop()


class SilentReporter:
    """For workers other than the first, and for programs that want no output."""

    def say(self, sentence: str) -> None:
        pass

    def counting(self, what: str) -> Callable[[int, int | None], None]:
        return lambda done, total: None

    def update(self, info: UpdateInfo) -> None:
        pass

    def close(self) -> None:
        pass


def default_reporter() -> Reporter:
    return LiveReporter() if sys.stderr.isatty() else PlainReporter()
