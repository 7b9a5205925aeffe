"""A server of a model for a benchmark: started on a free port, waited for, and ended."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

SERVE = [sys.executable, "-c", "from qkv.cli import main; main()", "serve"]


@contextmanager
def served(model: str, *settings: str) -> Iterator[str]:
    """The address of a server that is ready."""
    server = subprocess.Popen([*SERVE, model, "port=0", *settings], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        match = re.search(r"http://\S+", server.stderr.readline())
        assert match, "the server does not start"
        # However long a busy machine takes to load the model.
        while httpx2.get(f"{match[0]}/health/ready", timeout=None).status_code != 200:
            assert server.poll() is None, "the server ended before it was ready"
            time.sleep(0.1)
        yield match[0]
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate()
