"""SIGINT and SIGTERM ask the loop to stop; a second signal stops it at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Records which signal was received."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise SystemExit(128 + number)
        self.signal = number

    @property
    def exit_code(self) -> int:
        """As shells count: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + (self.signal or 0)


@contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Context in which the two signals only set the request; the previous handlers are restored afterwards.

    Only the main thread can do this; in other threads nothing is caught.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request.receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
