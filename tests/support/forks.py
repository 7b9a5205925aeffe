"""Processes that start in milliseconds: a parent that has imported qkv forks a child for every call.

A training run spends seconds on importing torch; tests that kill it again and again cannot. The parent has run no
tensor operation, so that its children may start threads of their own.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
PRELOADED = [
    "sacrebleu",
    "torch._dynamo",  # the first optimiser imports it
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint.hf_storage",
    "qkv.translate.jobs.line_work",
    "qkv.demo.report",
    "qkv.training.run.average",
    "qkv.training.setup.inspect_data",
]


def buffered() -> dict[str, str]:
    """The environment without what makes Python write at once: a user's shell does not say so."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@dataclass
class Ended:
    """How a child ended. `code` is negative when a signal killed it."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def complaint(self) -> str:
        """The one sentence of a failure; everything else on stderr is progress."""
        lines = [line for line in self.stderr.splitlines() if line.startswith("qkv: ")]
        assert "Traceback" not in self.stderr, self.stderr
        assert len(lines) == 1, self.stderr
        assert self.stderr.rstrip().splitlines()[-1] == lines[0], self.stderr
        return lines[0].removeprefix("qkv: ")


class Child:
    """A forked process."""

    def __init__(self, forks: "Forks", pid: int, out: Path, err: Path) -> None:
        self.forks, self.pid, self.out, self.err = forks, pid, out, err
        self.began = time.monotonic()

    def poll(self) -> int | None:
        code: int | None = self.forks.ask({"poll": self.pid})
        return code

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def until(self, true: Callable[[], bool], timeout: float = 60) -> None:
        """Wait until something holds; fail if the child ends before."""
        end = time.monotonic() + timeout
        while not true():
            assert self.poll() is None, f"ended early: {self.err.read_text()}"
            assert time.monotonic() < end, "waited too long"
            time.sleep(0.02)

    def wait(self, timeout: float = 60) -> Ended:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                self.send(signal.SIGKILL)
                raise AssertionError(f"still running after {timeout} s: {self.err.read_text()}")
            time.sleep(0.02)
        errors = self.err.read_text(encoding="utf-8", errors="replace")
        return Ended(code, self.out.read_text(encoding="utf-8"), errors, time.monotonic() - self.began)


class Forks:
    """The parent process, and the ways to start its children."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**buffered(), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, function: str, *arguments: Any, cwd: Path | None = None, stdin: Path | None = None) -> Child:
        """Call `module:function` with plain arguments in a child; `stdin` is a file to read, by default empty."""
        self.number += 1
        out, err = self.folder / f"{self.number}.out", self.folder / f"{self.number}.err"
        out.touch()
        request = {"function": function, "arguments": arguments, "out": str(out), "err": str(err)}
        request["in"] = str(stdin or os.devnull)
        return Child(self, self.ask({**request, "cwd": str(cwd or ROOT)}), out, err)

    def call(self, function: str, *arguments: Any, timeout: float = 60) -> Ended:
        return self.start(function, *arguments).wait(timeout)

    def start_qkv(self, *arguments: object, cwd: Path | None = None, stdin: Path | None = None) -> Child:
        """`qkv ARGUMENTS`."""
        return self.start("tests.support.forks:command", *map(str, arguments), cwd=cwd, stdin=stdin)

    def qkv(self, *arguments: object, cwd: Path | None = None, stdin: Path | None = None, timeout: float = 60) -> Ended:
        return self.start_qkv(*arguments, cwd=cwd, stdin=stdin).wait(timeout)

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def command(*arguments: str) -> None:
    """The command line."""
    from qkv.cli import main

    sys.argv = ["qkv", *arguments]
    main()


def serve() -> None:
    """Fork and poll on request, until stdin closes; the children that are left are ended."""
    for name in PRELOADED:
        importlib.import_module(name)
    children: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            children.discard(pid)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                _be_child(request)
            children.add(answer)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _be_child(request: dict[str, Any]) -> None:
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT, 0o644), number)
    os.dup2(os.open(request["in"], os.O_RDONLY), 0)
    os.chdir(request["cwd"])
    run_as_program(request["function"], request["arguments"])


def run_as_program(function: str, arguments: list[Any]) -> NoReturn:
    """Call `module:function`, and end the process as a program ends."""
    code = 0
    try:
        module, _, name = function.partition(":")
        # The module that runs as __main__ here is imported once more under its own name.
        getattr(importlib.import_module(module), name)(*arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
