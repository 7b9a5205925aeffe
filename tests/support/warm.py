"""A `qkv` command that starts in milliseconds, for pages that run it dozens of times.

A server has imported all that the command needs. The command that stands on the PATH is a small program which hands
its arguments, folder, environment and standard streams to the server; a fork of the server runs them. Whoever kills
the small program kills the fork.
"""

import array
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.support.forks import PRELOADED, ROOT, run_as_program

CLIENT = """\
#!{python} -IS
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
streams = array.array("i", [0, 1, 2])
server.sendmsg([len(request).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
server.sendall(request)
os.close(0), os.close(1)
sys.exit(int.from_bytes(server.recv(1) or b"\\x46", "big"))
"""


class WarmCommand:
    """Starts the server; `folder` is to be put on the PATH."""

    def __init__(self) -> None:
        # Not in the test's own folder: the address of a socket has room for about a hundred letters.
        self.folder = Path(tempfile.mkdtemp(prefix="qkv-warm-"))
        address = self.folder / "server"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm", str(address)],
            stdin=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
        )
        command = self.folder / "qkv"
        command.write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
        command.chmod(0o755)
        end = time.monotonic() + 60
        while not address.exists():
            assert self.process.poll() is None, "the server has ended"
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.02)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.folder)


def serve(address: Path) -> None:
    """Fork for each request, until stdin closes."""
    for name in PRELOADED:
        __import__(name)
    listener = socket.socket(socket.AF_UNIX)
    unready = address.with_suffix(".new")
    listener.bind(str(unready))
    listener.listen()
    unready.rename(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a keeper ended
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection = listener.accept()[0]
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _keep(connection)
        connection.close()


def _keep(connection: socket.socket) -> None:
    """Run one request in a child, and end the child when the small program is gone."""
    size, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(12))
    streams = array.array("i", ancillary[0][2])
    received = b""
    while len(received) < int.from_bytes(size, "big"):
        received += connection.recv(1 << 16)
    arguments, folder, environment = json.loads(received)
    child = os.fork()
    if child == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        run_as_program("tests.support.forks:command", arguments)
    for stream in streams:
        os.close(stream)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if select.select([connection], [], [], 0.02)[0]:
            os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    # If the small program was killed, nobody waits for the answer.
    with suppress(OSError):
        connection.sendall((code if code >= 0 else 128 - code).to_bytes(1, "big"))
    os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
