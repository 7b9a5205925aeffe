"""Batches across requests, with workers that answer at once or never: what shares a batch, and what happens to it."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from qkv.serving.workers.jobs import BatchJob, BatchWork, Done, Failed, Load, ModelSettings, Progress, Translate
from qkv.serving.workers.pool import JobFailed, Tell, WorkerDied, WorkerProcess
from qkv.serving.workers.queue import Draining, Item, QueueFull, RequestQueue
from qkv.translate.output import Translation
from qkv.translate.texts import SourceText

DECODING = Translate(ModelSettings(Path("model"), "torch"))
OTHER = Translate(ModelSettings(Path("other"), "torch"))
T = TypeVar("T")


def output(text: str) -> Translation:
    return Translation(text.upper(), 0.0, [], [], [])


class FakeWorker(WorkerProcess):
    """Answers in upper case; `die` kills it, `refuse` is a wrong request, and `wait` is answered when it is let go."""

    def __init__(self) -> None:
        super().__init__(Load())
        self.jobs: list[list[str]] = []
        self.starts = 0
        self.cancelled: list[int] = []
        self.go = asyncio.Event()
        self.dead = asyncio.Event()

    async def died(self) -> None:
        await self.dead.wait()
        self.dead.clear()

    async def start(self) -> None:
        self.starts += 1
        self.ready.set()

    async def run(self, job: BatchJob, tell: Tell) -> Done:
        texts = [source.text for source in job.items]
        self.jobs.append(texts)
        if "wait" in texts:
            await self.go.wait()
        if "die" in texts:
            raise WorkerDied("dead")
        if "refuse" in texts:
            raise JobFailed(Failed("wrong", usage=True))
        for place, text in enumerate(texts):
            tell(Progress(place, text[:2]))
        return Done([output(text) for text in texts])

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)
        self.go.set()

    async def stop(self) -> None:
        self.ready.clear()


def running(test: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(test, 20))


async def ask(queue: RequestQueue, *texts: str, decoding: BatchWork = DECODING) -> list[str]:
    items = [Item(SourceText(text), len(text)) for text in texts]
    return [found.result.text for found in await queue.ask(decoding, items)]


def test_texts_of_several_requests_share_a_batch_and_none_is_mixed_up() -> None:
    async def test() -> None:
        worker = FakeWorker()
        queue = RequestQueue([worker], window=0.05)
        queue.start()
        found = await asyncio.gather(*(ask(queue, f"text {n}", f"more {n}") for n in range(20)))
        assert found == [[f"TEXT {n}", f"MORE {n}"] for n in range(20)]
        assert len(worker.jobs) == 1
        await queue.stop()

    running(test())


def test_each_request_is_told_about_its_own_texts() -> None:
    async def test() -> None:
        queue = RequestQueue([FakeWorker()], window=0.05)
        queue.start()
        told: list[list[tuple[int, str]]] = [[], []]

        async def watched(number: int, *texts: str) -> None:
            items = [Item(SourceText(text), len(text)) for text in texts]
            await queue.ask(DECODING, items, lambda place, news: told[number].append((place, news)))

        await asyncio.gather(watched(0, "alpha", "beta"), watched(1, "gamma"))
        assert told == [[(0, "al"), (1, "be")], [(0, "ga")]]
        await queue.stop()

    running(test())


def test_only_what_is_decoded_in_the_same_way_and_is_about_as_long_shares_a_batch() -> None:
    async def test() -> None:
        worker = FakeWorker()
        queue = RequestQueue([worker], window=0.05, batch_tokens=600)
        queue.start()
        long = "a" * 300
        await asyncio.gather(ask(queue, "short"), ask(queue, long), ask(queue, "tiny"), ask(queue, "x", decoding=OTHER))
        assert sorted(map(len, worker.jobs)) == [1, 1, 2]
        assert ["short", "tiny"] in worker.jobs
        worker.jobs.clear()
        await ask(queue, *[long] * 12)
        assert [len(job) for job in worker.jobs] == [5, 5, 2], "a batch holds 600 tokens"
        await queue.stop()

    running(test())


def test_a_text_is_tried_again_when_its_worker_dies() -> None:
    class DiesOnce(FakeWorker):
        async def run(self, job: BatchJob, tell: Tell) -> Done:
            if self.starts == 1:
                raise WorkerDied("killed from outside")
            return await super().run(job, tell)

    async def test() -> None:
        worker = DiesOnce()
        queue = RequestQueue([worker], window=0)
        queue.start()
        assert await ask(queue, "once more") == ["ONCE MORE"]
        assert (worker.starts, queue.counts.deaths) == (2, 1)
        await queue.stop()

    running(test())


def test_models_that_cannot_be_loaded_are_reported() -> None:
    class CannotLoad(FakeWorker):
        async def start(self) -> None:
            raise JobFailed(Failed("no such engine", usage=True))

    async def test() -> None:
        failures: list[Exception] = []
        queue = RequestQueue([CannotLoad()])
        queue.start(failures.append)
        await asyncio.sleep(0.05)
        assert [str(error) for error in failures] == ["no such engine"]
        await queue.stop()

    running(test())


def test_later_requests_go_between_the_texts_of_a_long_one_but_do_not_starve_it() -> None:
    async def test() -> None:
        worker = FakeWorker()
        queue = RequestQueue([worker], window=0, batch_tokens=10)
        queue.start()
        long = asyncio.create_task(ask(queue, *[f"of many {n}" for n in range(6)]))
        await asyncio.sleep(0)
        await ask(queue, "the only one")
        done = [text for job in worker.jobs for text in job]
        assert done.index("the only one") <= 2
        await asyncio.gather(long, *(ask(queue, f"later {n}") for n in range(20)))
        done = [text for job in worker.jobs for text in job]
        assert done.index("of many 5") < done.index("later 10")
        await queue.stop()

    running(test())


def test_a_full_queue_refuses_and_a_draining_one_finishes() -> None:
    async def test() -> None:
        worker = FakeWorker()
        queue = RequestQueue([worker], window=0, capacity=1)
        queue.start()
        first = asyncio.create_task(ask(queue, "wait"))
        await asyncio.sleep(0.01)
        with pytest.raises(QueueFull):
            await ask(queue, "second")
        asyncio.get_running_loop().call_later(0.05, worker.go.set)
        await queue.drain(5)
        assert await first == ["WAIT"]
        with pytest.raises(Draining):
            await ask(queue, "late")
        assert queue.counts.refused == 1
        await queue.stop()

    running(test())


def test_a_request_that_is_given_up_is_withdrawn() -> None:
    async def test() -> None:
        worker = FakeWorker()
        queue = RequestQueue([worker], window=0)
        queue.start()
        left = asyncio.create_task(ask(queue, "wait"))
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(ask(queue, "waiting"))
        await asyncio.sleep(0.01)
        waiting.cancel()
        left.cancel()
        await asyncio.gather(left, waiting, return_exceptions=True)
        assert len(worker.cancelled) == 1, "the batch that is being decoded is stopped"
        assert (queue.waiting, queue.open_requests, queue.counts.cancelled) == ([], 0, 2)
        assert await ask(queue, "next") == ["NEXT"]
        await queue.stop()

    running(test())


def test_a_batch_with_another_request_in_it_goes_on() -> None:
    async def test() -> None:
        worker = FakeWorker()
        queue = RequestQueue([worker], window=0.01)
        queue.start()
        left, stays = (asyncio.create_task(ask(queue, text)) for text in ("wait", "stays"))
        await asyncio.sleep(0.05)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        assert worker.cancelled == []
        worker.go.set()
        assert await stays == ["STAYS"]
        await queue.stop()

    running(test())


@pytest.mark.parametrize(("poison", "error"), [("die", WorkerDied), ("refuse", JobFailed)])
def test_only_the_text_that_is_the_reason_fails(poison: str, error: type[Exception]) -> None:
    async def test() -> None:
        worker = FakeWorker()
        queue = RequestQueue([worker], window=0.05)
        queue.start()
        bad, *good = (asyncio.create_task(ask(queue, text)) for text in (poison, "one", "two"))
        assert await asyncio.gather(*good) == [["ONE"], ["TWO"]]
        with pytest.raises(error):
            await bad
        assert worker.starts == (3 if poison == "die" else 1), "a worker that died is replaced"
        assert len(worker.jobs) == 4, "together, then one by one"
        await queue.stop()

    running(test())


def test_the_death_of_an_idle_worker_is_noticed() -> None:
    async def test() -> None:
        worker = FakeWorker()
        queue = RequestQueue([worker], window=0)
        queue.start()
        assert await ask(queue, "one") == ["ONE"]
        worker.dead.set()
        while worker.starts < 2:
            await asyncio.sleep(0.001)
        assert queue.counts.deaths == 1
        assert await ask(queue, "two") == ["TWO"]
        await queue.stop()

    running(test())
