"""How far a long piece of work is, in words."""

import io
import time

import pytest

from qkv.core.progress import PlainReporter, ProgressText, clock


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 61, 3600, 36_061)] == [
        "0:00",
        "1:00",
        "1:01",
        "1:00:00",
        "10:01:01",
    ]
    assert clock(-3) == "0:00"


def test_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    time, pace = Clock(monkeypatch), ProgressText("Work")
    assert pace.words(0, 100) == "Work"
    time.now += 10
    assert pace.words(20, 100) == "Work: 20 of 100, 0:40 left"
    time.now += 10
    assert pace.words(80, 100) == "Work: 80 of 100, 0:05 left"
    assert pace.words(100, 100) == "Work: 100 of 100, 0:00 left"


def test_work_that_is_taken_up_again_is_judged_by_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    time, pace = Clock(monkeypatch), ProgressText("Work")
    assert pace.words(5000, 6000) == "Work: 5,000 of 6,000"
    time.now += 10
    assert pace.words(5100, 6000) == "Work: 5,100 of 6,000, 1:30 left"


def test_nothing_is_guessed_without_a_total(monkeypatch: pytest.MonkeyPatch) -> None:
    time, pace = Clock(monkeypatch), ProgressText("Work")
    pace.words(0, None)
    time.now += 5
    assert pace.words(7, None) == "Work: 7"


def test_lines_are_rare_and_quick_work_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    time, stream = Clock(monkeypatch), io.StringIO()
    count = PlainReporter(stream, every=10, quiet=2).counting("Work")
    for second in range(1, 31):
        time.now += 1
        count(second, 30)
    assert stream.getvalue().splitlines() == [
        "Work: 2 of 30, 0:28 left",
        "Work: 12 of 30, 0:18 left",
        "Work: 22 of 30, 0:08 left",
        "Work: 30 of 30, 0:00 left",
    ]
