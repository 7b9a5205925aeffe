"""Requests in, batches out: texts of several requests that are decoded in the same way share a batch."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from qkv.core.errors import QkvError
from qkv.serving.workers.jobs import BatchJob, BatchWork, Progress
from qkv.serving.workers.pool import JobFailed, WorkerDied, WorkerProcess

log = logging.getLogger("qkv.serve")
CHARACTERS = 3
"""Characters of a token, about: the server itself has no tokenizer."""
SHORT = 16
"""Texts up to this many tokens share a batch, however much they differ in length."""


class QueueFull(QkvError):
    """As many requests are waiting as the server allows."""


class Draining(QkvError):
    """The server is about to end and takes no more requests."""


class Item(NamedTuple):
    """One text of a request, or another thing that is worked on as a whole."""

    content: Any
    characters: int


class ItemAnswer(NamedTuple):
    """What became of an item."""

    result: Any
    engine: str
    seconds: float
    """How long its batch took."""


Watch = Callable[[int, Any], None]
"""Called with the place of an item in its request and what is written so far."""


@dataclass(eq=False)
class Unit:
    """One item of a request."""

    work: BatchWork
    item: Item
    watch: Callable[[Any], None] | None
    turn: int
    """The request's number plus its place in the request: later requests go between the texts of a long one, which
    does not hold them up, and every text has its turn at last."""
    arrived: float
    result: asyncio.Future[ItemAnswer]
    alone: bool = False
    """Whether it gets a batch of its own, because a batch that it was in failed."""

    @property
    def tokens(self) -> int:
        return self.item.characters // CHARACTERS + 2


@dataclass(eq=False)
class RunningBatch:
    """What a worker works on."""

    number: int
    units: list[Unit]
    worker: WorkerProcess
    cancelled: float | None = None
    """When it was cancelled."""


@dataclass
class QueueCounts:
    """What happened since the start."""

    requests: int = 0
    batches: int = 0
    texts: int = 0
    cancelled: int = 0
    refused: int = 0
    deaths: int = 0
    stopped: int = 0
    """Batches that nobody waited for any more, and that have ended."""
    slowest_stop: float = 0.0
    """The most seconds until such a batch had ended."""


@dataclass
class RequestQueue:
    """Hands the texts of requests to workers, in batches.

    A batch is sent as soon as a worker is free: while all are busy, what arrives meanwhile becomes the next batch.
    """

    workers: list[WorkerProcess]
    window: float = 0.002
    """Seconds that the first text waits for others to share its batch."""
    batch_tokens: int = 4096
    """Tokens of a batch, padding included, estimated from the characters."""
    capacity: int = 128
    """Requests that may wait or be worked on at the same time."""
    counts: QueueCounts = field(default_factory=QueueCounts)

    def __post_init__(self) -> None:
        self.waiting: list[Unit] = []
        self.open_requests = 0
        self.draining = False
        self.running: list[RunningBatch] = []
        self._requests, self._batches = count(), count()
        self._arrival = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: Callable[[Exception], None] = lambda error: None

    def start(self, failed: Callable[[Exception], None] = lambda error: None) -> None:
        """Start the workers; requests are taken at once and wait for them.

        `failed` is called if a worker cannot load its models, which no other try would mend.
        """

        self._failed = failed
        for worker in self.workers:
            self._employ(worker)

    def _employ(self, worker: WorkerProcess) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and isinstance(error := task.exception(), Exception):
                self._failed(error)

        task = asyncio.create_task(self._serve(worker))
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def replace(self, workers: list[WorkerProcess]) -> None:
        """Let other workers do the work once they are ready; the present ones finish what they have begun.

        Raises WorkerDied or JobFailed if one of them cannot start: then nothing changes.
        """
        try:
            await asyncio.gather(*(worker.start() for worker in workers))
        except QkvError:
            await asyncio.gather(*(worker.stop() for worker in workers))
            raise
        before, self.workers = self.workers, workers
        for worker in workers:
            self._employ(worker)
        for worker in before:
            worker.retired.set()

    @property
    def ready(self) -> bool:
        """Whether a worker can take a request."""
        return not self.draining and any(worker.ready.is_set() for worker in self.workers)

    async def ask(self, work: BatchWork, items: Sequence[Item], watch: Watch | None = None) -> list[ItemAnswer]:
        """The answers for one request; cancelling it withdraws its items.

        Raises QueueFull, Draining, WorkerDied or JobFailed.
        """
        if self.draining:
            raise Draining("the server is shutting down")
        if self.open_requests >= self.capacity:
            self.counts.refused += 1
            raise QueueFull("the server is busy")
        number, loop = next(self._requests), asyncio.get_running_loop()
        units = [
            Unit(work, item, watch and partial(watch, place), number + place, loop.time(), loop.create_future())
            for place, item in enumerate(items)
        ]
        self.open_requests += 1
        self.counts.requests += 1
        self.waiting += units
        self._arrival.set()
        try:
            return list(await asyncio.gather(*(unit.result for unit in units)))
        except asyncio.CancelledError:
            self.counts.cancelled += 1
            raise
        finally:
            self.open_requests -= 1
            self._withdraw(units)

    async def drain(self, seconds: float) -> None:
        """Take no more requests, and wait until those that were taken are answered."""
        self.draining = True
        with suppress(TimeoutError):  # requests that take longer are given up
            async with asyncio.timeout(seconds):
                while self.open_requests:
                    await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """End the workers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self.workers))

    def _withdraw(self, units: Sequence[Unit]) -> None:
        """Forget what is left of a request. A batch that nobody waits for any more is cancelled."""
        for unit in units:
            unit.result.cancel()
        self.waiting = [unit for unit in self.waiting if not unit.result.done()]
        for batch in self.running:
            if batch.cancelled is None and all(unit.result.done() for unit in batch.units):
                batch.cancelled = asyncio.get_running_loop().time()
                batch.worker.cancel(batch.number)

    async def _serve(self, worker: WorkerProcess) -> None:
        """Give one worker batch after batch, until it is retired."""
        if not worker.ready.is_set():
            await _start(worker)
        while not worker.retired.is_set():
            units = await self._units_for(worker)
            if units is None:
                if worker.retired.is_set():
                    break
                log.error("an idle worker process died; another one is started")
                self.counts.deaths += 1
                await _start(worker)
                continue
            batch = RunningBatch(next(self._batches), units, worker)
            self.running.append(batch)
            try:
                await self._work(batch)
            except WorkerDied as error:
                log.error("a worker process died; another one is started")
                self.counts.deaths += 1
                self._one_by_one(batch.units, error)
                await worker.stop()
                await _start(worker)
            finally:
                self.running.remove(batch)
        await worker.stop()

    async def _work(self, batch: RunningBatch) -> None:
        self.counts.batches += 1
        self.counts.texts += len(batch.units)
        job = BatchJob(batch.number, batch.units[0].work, [unit.item.content for unit in batch.units])

        def tell(progress: Progress) -> None:
            unit = batch.units[progress.place]
            if unit.watch is not None and not unit.result.done():
                unit.watch(progress.news)

        try:
            found = await batch.worker.run(job, tell)
        except JobFailed as error:
            self._one_by_one(batch.units, error)
            return
        finally:
            self._note_stop(batch)
        for unit, result in zip(batch.units, found.results, strict=True):
            if not unit.result.done():
                unit.result.set_result(ItemAnswer(result, found.engine, found.seconds))

    def _note_stop(self, batch: RunningBatch) -> None:
        """Count a batch that ended after nobody waited for it any more, and how long that took."""
        if batch.cancelled is not None:
            self.counts.stopped += 1
            took = asyncio.get_running_loop().time() - batch.cancelled
            self.counts.slowest_stop = max(self.counts.slowest_stop, took)

    def _one_by_one(self, units: list[Unit], error: WorkerDied | JobFailed) -> None:
        """Try the texts of a batch that failed one by one: only those that are the reason fail."""
        if len(units) == 1 and (units[0].alone or isinstance(error, JobFailed)):
            _fail(units[0], error)
            return
        for unit in units:
            unit.alone = True
        self.waiting = [unit for unit in units if not unit.result.done()] + self.waiting
        self._arrival.set()

    async def _units_for(self, worker: WorkerProcess) -> list[Unit] | None:
        """The texts of the next batch; None: the worker died, or was retired, before there were any."""
        waiting = asyncio.create_task(self._next_units())
        others = [asyncio.create_task(worker.died()), asyncio.create_task(worker.retired.wait())]
        try:
            await asyncio.wait({waiting, *others}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            for task in (waiting, *others):
                task.cancel()

    async def _next_units(self) -> list[Unit]:
        """The texts of the next batch, once there are any."""
        while True:
            while not self.waiting:
                self._arrival.clear()
                await self._arrival.wait()
            first = min(self.waiting, key=lambda unit: unit.turn)
            chosen = self._alike(first)
            left = first.arrived + self.window - asyncio.get_running_loop().time()
            if left <= 0 or first.alone or sum(unit.tokens for unit in chosen) >= self.batch_tokens:
                taken = set(map(id, chosen))
                self.waiting = [unit for unit in self.waiting if id(unit) not in taken]
                return chosen
            await asyncio.sleep(left)

    def _alike(self, first: Unit) -> list[Unit]:
        """`first` and others of about its length that are decoded in the same way, as many as a batch holds."""
        if first.alone:
            return [first]
        chosen, longest = [first], first.tokens
        for unit in sorted(self.waiting, key=lambda unit: unit.turn):
            if unit is first or unit.alone or unit.work != first.work:
                continue
            short, long = sorted((unit.tokens, first.tokens))
            most = max(longest, unit.tokens)
            if (long <= SHORT or long <= 2 * short) and most * (len(chosen) + 1) <= self.batch_tokens:
                chosen.append(unit)
                longest = most
        return chosen


def _fail(unit: Unit, error: Exception) -> None:
    if not unit.result.done():
        unit.result.set_exception(error)


RETRY = 1.0
"""Seconds before a worker that could not start is started again."""


async def _start(worker: WorkerProcess) -> None:
    while True:
        try:
            await worker.start()
        except WorkerDied:
            log.error("a worker process died while it started; trying again")
            await asyncio.sleep(RETRY)
        else:
            return
