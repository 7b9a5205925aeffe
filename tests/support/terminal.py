"""A command on a terminal: what it shows is read, and keys are hit, Ctrl-C and Ctrl-D among them."""

import fcntl
import io
import os
import random
import re
import select
import signal
import sys
import termios
import time

from tests.support.forks import Forks, command

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal:
    """`qkv ARGUMENTS` by somebody who sits in front of it."""

    def __init__(self, forks: Forks, *arguments: object) -> None:
        self.keys, terminal = os.openpty()
        self.child = forks.start("tests.support.terminal:on_terminal", os.ttyname(terminal), *map(str, arguments))
        self.shown = ""
        """Everything so far, without colours and movements."""
        self.read = 0
        """How much of it was waited for."""
        # The child has opened it for itself as soon as it shows anything.
        self._terminal = terminal

    def hit(self, keys: str) -> None:
        os.write(self.keys, keys.encode())

    def until(self, text: str, timeout: float = 60) -> str:
        """Wait for a text to appear after what was waited for before; returns what appeared up to it."""
        end = time.monotonic() + timeout
        while text not in self.shown[self.read :]:
            assert time.monotonic() < end, f"waited too long for {text!r}: {self.shown}"
            assert self._receive() or self.child.poll() is None, f"ended before {text!r}: {self.shown}"
        begin, self.read = self.read, self.shown.index(text, self.read) + len(text)
        return self.shown[begin : self.read]

    def end(self, timeout: float = 60, insist: str = "") -> tuple[int, str]:
        """The exit code, and what appeared since it was last waited for. `insist` is hit every few seconds."""
        end = time.monotonic() + timeout
        hit_again = time.monotonic() + 3
        # Read all the time: who writes to a terminal that nobody reads comes to a halt.
        while (code := self.child.poll()) is None:
            self._receive()
            assert time.monotonic() < end, f"still running: {self.shown}"
            if insist and time.monotonic() > hit_again:
                self.hit(insist)
                hit_again += 3
        while self._receive():
            pass
        os.close(self.keys)
        os.close(self._terminal)
        return code, self.shown[self.read :]

    def _receive(self) -> bool:
        if not select.select([self.keys], [], [], 0.1)[0]:
            return False
        self.shown += ESCAPES.sub("", os.read(self.keys, 65536).decode(errors="replace"))
        return True


def on_terminal(name: str, *arguments: str) -> None:
    """The life of the child: its input, output and Ctrl-C come from the terminal `name`."""
    os.setsid()
    terminal = os.open(name, os.O_RDWR)
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(terminal, number)
    # Open as long as the process lives.
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, mode, closefd=False), encoding="utf-8", line_buffering=True)
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    os.environ["TERM"] = "xterm"
    # Where tests run in the background of a shell, it was ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    on_one_core(*arguments)


def on_one_core(*arguments: str) -> None:
    """`qkv ARGUMENTS` on a machine with one core: a run then needs no second process, which takes seconds to start."""
    os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
    command(*arguments)
