"""`qkv translate` with settings that only a test wants; each function is the whole life of a forked process."""

import signal
import threading
import time
from typing import Any
from unittest import mock

from qkv.core.child import child_command
from qkv.translate import translator
from qkv.translate.jobs import team
from qkv.translate.texts import TextDecoder
from tests.support import faults
from tests.support.forks import command


def in_small_chunks(chunk: int, *arguments: str) -> None:
    """The command, so many lines at a time."""
    translator.CHUNK = chunk
    command(*arguments)


def slowly(chunk: int, seconds: float, *arguments: str) -> None:
    """The same with a rest after each chunk."""
    fast = TextDecoder.finish

    def slow(self: TextDecoder, *given: Any) -> Any:
        time.sleep(seconds)
        return fast(self, *given)

    with mock.patch.object(TextDecoder, "finish", slow):
        in_small_chunks(chunk, *arguments)


def with_small_files(largest: int, chunk: int, *arguments: str) -> None:
    """The same where no file can grow beyond `largest` bytes."""
    translator.CHUNK = chunk
    faults.with_small_files(largest, *arguments)


def with_workers(*arguments: str) -> None:
    """The same with two workers from the first line on; they take a chunk each and never answer."""
    translator.PATIENCE = -1.0
    team.command = lambda descriptor: child_command("tests.support.idle", str(descriptor))
    in_small_chunks(2, *arguments, "--workers", "2", "--engine", "torch")


def interrupted_in_a_thread(*arguments: str) -> None:
    """`with_workers`, and Ctrl-C comes while the main thread waits for an answer, but to a thread beside it."""

    def interrupt() -> None:
        while sum(thread.name.startswith("ThreadPoolExecutor") for thread in threading.enumerate()) < 2:
            time.sleep(0.01)
        time.sleep(0.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with_workers(*arguments)
