"""Worker processes, as asyncio sees them. One that dies is replaced."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pickle import loads
from typing import Any

from qkv.core.errors import QkvError
from qkv.serving.jobs import LENGTH, BatchJob, Cancel, Failed, Load, frame
from qkv.translate.output import Translation


class WorkerDied(QkvError):
    """The worker process ended while it was working."""


class JobFailed(QkvError):
    """The worker could not do its job."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.usage = failed.usage


class WorkerProcess:
    """One worker process; it works on one job at a time."""

    def __init__(self, preload: list[Load]) -> None:
        self.preload = preload
        self.ready = asyncio.Event()
        """Set while it waits for a job or works on one; not while it starts."""
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process and load its models; raises WorkerDied or JobFailed."""
        self.ready.clear()
        # One thread for each worker: there are as many of them as cores.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "qkv.serving.worker"]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
        )
        for load in self.preload:
            await self._ask(load)
        self.ready.set()

    async def run(self, job: BatchJob) -> list[Translation]:
        """The result of a job; raises WorkerDied or JobFailed."""
        found: list[Translation] = await self._ask(job)
        return found

    def cancel(self, number: int) -> None:
        """Stop working on the job of this number."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):
                self._process.stdin.write(frame(Cancel(number)))

    async def stop(self) -> None:
        """End the process."""
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _ask(self, message: BatchJob | Load) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(frame(message))
            await process.stdin.drain()
            (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            answer = loads(await process.stdout.readexactly(length))
        except (asyncio.IncompleteReadError, OSError) as error:
            self.ready.clear()
            raise WorkerDied("the worker process died") from error
        if isinstance(answer, Failed):
            raise JobFailed(answer)
        return answer
