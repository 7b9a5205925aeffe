"""Progress of long work: a live bar on a terminal, plain lines elsewhere, all on stderr."""

import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

Counting = Callable[[int, int | None], None]
"""Called with (done, total or None) while work is in progress."""


class Reporter(Protocol):
    """Receives progress."""

    def say(self, sentence: str) -> None:
        """Report one line."""

    def counting(self, what: str) -> Counting:
        """A function to call with (done, total or None) while `what` is in progress."""

    def close(self) -> None:
        """No more calls."""


def clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class ProgressText:
    """The progress of one piece of work, as text."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began: tuple[float, int] | None = None

    def words(self, done: int, total: int | None) -> str:
        if self.began is None:
            # Resumed work starts in the middle: its rate is that of what is done from now on.
            self.began = time.monotonic(), done
        if not done:
            return self.what
        left = self._seconds_left(done, total)
        return (
            f"{self.what}: {done:,}"
            + (f" of {total:,}" if total else "")
            + (f", {clock(left)} left" if left is not None else "")
        )

    def _seconds_left(self, done: int, total: int | None) -> float | None:
        assert self.began is not None
        began, first = self.began
        if total is None or done <= first:
            return None
        return (time.monotonic() - began) / (done - first) * (total - done)


class PlainReporter:
    """Lines for logs, one every few seconds at most, and none in the first `quiet` seconds."""

    def __init__(self, stream: TextIO | None = None, every: float = 10.0, quiet: float = 0.0) -> None:
        self.stream = stream or sys.stderr
        self.every = every
        self.next = time.monotonic() + quiet

    def say(self, sentence: str) -> None:
        print(sentence, file=self.stream, flush=True)

    def counting(self, what: str) -> Counting:
        pace = ProgressText(what)
        begun = False

        def count(done: int, total: int | None) -> None:
            nonlocal begun
            words = pace.words(done, total)
            # If the work was reported, so is its end.
            if self.due() or (begun and done == total):
                self.say(words)
                begun = done != total

        return count

    def due(self) -> bool:
        now = time.monotonic()
        if now < self.next:
            return False
        self.next = now + self.every
        return True

    def close(self) -> None:
        pass


class LiveReporter:
    """A progress bar with text, for terminals."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        self.console = Console(stderr=True)
        self.bar = Progress(
            BarColumn(bar_width=12),
            # On a narrow terminal the text is truncated rather than wrapped.
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("Starting", total=None)
        self.bar.start()

    def say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False)

    def counting(self, what: str) -> Counting:
        pace = ProgressText(what)

        def count(done: int, total: int | None) -> None:
            self.bar.update(self.task, description=pace.words(done, total), completed=done, total=total)

        return count

    def close(self) -> None:
        self.bar.stop()


class SilentReporter:
    """Reports nothing."""

    def say(self, sentence: str) -> None:
        pass

    def counting(self, what: str) -> Counting:
        return lambda done, total: None

    def close(self) -> None:
        pass


def default_reporter(quiet: float = 0.0) -> Reporter:
    """A bar on a terminal, else lines, the first after `quiet` seconds; nothing where there is no stderr."""
    if sys.stderr is None:
        return SilentReporter()
    return LiveReporter() if sys.stderr.isatty() else PlainReporter(quiet=quiet)
