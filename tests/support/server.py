"""A real server with worker processes, for tests."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2

MODEL = Path(__file__).parents[1] / "fixtures" / "autoregressive" / "model"
WORDS = ["kalo minesu ta", "su", "lota tasumi ne", "kalo", "mine su", "ta lo ne"]
SERVE = [sys.executable, "-c", "from qkv.cli import main; main()", "serve"]


class RunningServer(NamedTuple):
    """A server that is ready."""

    process: subprocess.Popen[str]
    address: str
    log: list[str]
    """What it has written to standard error."""


def wait_until_ready(address: str, process: "subprocess.Popen[str]") -> None:
    """However long a busy machine takes to load the models; the time limit of the test is the only one."""
    while httpx2.get(f"{address}/health/ready", timeout=None).status_code != 200:
        assert process.poll() is None, "the server ended before it was ready"
        time.sleep(0.1)


@contextmanager
def running(*words: str) -> Iterator[RunningServer]:
    """A server, which must end well."""
    process = subprocess.Popen([*SERVE, *words, "port=0"], stderr=subprocess.PIPE, text=True)
    log: list[str] = []
    try:
        assert process.stderr is not None
        started = process.stderr.readline()
        match = re.search(r"http://\S+", started)
        assert match, started + process.stderr.read()
        # Nobody else reads the pipe, and a full one would stop the server.
        reading = threading.Thread(target=log.extend, args=(process.stderr,))
        reading.start()
        wait_until_ready(match[0], process)
        yield RunningServer(process, match[0], log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    reading.join()
    process.stderr.close()
    assert process.returncode == 0, log
    assert "Traceback" not in "".join(log)


@contextmanager
def serving(*settings: str) -> Iterator[str]:
    """The address of a server of `MODEL`."""
    with running(f"{MODEL}=aa-bb", "models.0.engine=torch", *settings) as server:
        yield server.address
