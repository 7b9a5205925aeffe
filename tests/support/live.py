"""A real server on a free port, for tests of its page."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.support.server import wait_until_ready


class LiveServer(NamedTuple):
    """A server that was started."""

    address: str
    process: "subprocess.Popen[str]"

    def wait(self) -> None:
        """Until a worker has its models loaded."""
        wait_until_ready(self.address, self.process)


@contextmanager
def live_server(*words: str) -> Iterator[LiveServer]:
    """`qkv serve WORDS` with one worker; it listens, but may still be loading its models."""
    command = [sys.executable, "-c", "from qkv.cli import main; main()", "serve", *words, "port=0", "workers=1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        started = process.stderr.readline()
        match = re.search(r"http://\S+", started)
        assert match, started + process.stderr.read()
        yield LiveServer(match[0], process)
    finally:
        process.send_signal(signal.SIGTERM)
        left = process.communicate()[1]
        assert "Traceback" not in left
