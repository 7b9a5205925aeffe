"""Worker processes, as asyncio sees them. One that dies is replaced."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pickle import loads

from qkv.core.errors import QkvError
from qkv.serving.workers.jobs import LENGTH, BatchJob, Cancel, Done, Failed, Load, Progress, frame

Tell = Callable[[Progress], None]


class WorkerDied(QkvError):
    """The worker process ended while it was working."""


class JobFailed(QkvError):
    """The worker could not do its job."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.usage = failed.usage


class WorkerProcess:
    """One worker process; it works on one job at a time.

    It loads what `preload` says at its start, and keeps at most `most` models of at most `megabytes` in memory.
    """

    def __init__(self, preload: Load, most: int = 8, megabytes: float | None = None) -> None:
        self.preload = preload
        self.limits = [str(most)] if megabytes is None else [str(most), str(megabytes)]
        self.retired = asyncio.Event()
        """Set when it shall take no more jobs."""
        self.ready = asyncio.Event()
        """Set while it waits for a job or works on one; not while it starts."""
        self._process: Process | None = None
        self._end: asyncio.Task[int] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process and load its models; raises WorkerDied or JobFailed."""
        self.ready.clear()
        # One thread for each worker: there are as many of them as cores.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "qkv.serving.workers.worker", *self.limits]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
        )
        self._end = asyncio.create_task(self._process.wait())
        await self._ask(self.preload)
        self.ready.set()

    async def run(self, job: BatchJob, tell: Tell) -> Done:
        """The results of a job; raises WorkerDied or JobFailed. `tell` gets what is written meanwhile."""
        return await self._ask(job, tell)

    async def died(self) -> None:
        """Returns when the process has ended."""
        if self._end is not None:
            # Not `Process.wait`, which asyncio does not forget when it is cancelled, as it is after every batch.
            await asyncio.wait({self._end})
        self.ready.clear()

    def cancel(self, number: int) -> None:
        """Stop working on the job of this number."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):  # a process that has died works on nothing
                self._process.stdin.write(frame(Cancel(number)))

    async def stop(self) -> None:
        """End the process."""
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):  # it has just ended by itself
            self._process.kill()
        await self._process.wait()

    async def _ask(self, message: BatchJob | Load, tell: Tell = lambda progress: None) -> Done:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(frame(message))
            await process.stdin.drain()
            while isinstance(answer := await _next_message(process.stdout), Progress):
                tell(answer)
        except (asyncio.IncompleteReadError, OSError) as error:
            self.ready.clear()
            raise WorkerDied("the worker process died") from error
        if isinstance(answer, Failed):
            raise JobFailed(answer)
        assert isinstance(answer, Done)
        return answer


async def _next_message(source: asyncio.StreamReader) -> Done | Failed | Progress:
    (length,) = LENGTH.unpack(await source.readexactly(LENGTH.size))
    message: Done | Failed | Progress = loads(await source.readexactly(length))
    return message
