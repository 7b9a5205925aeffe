"""A worker process, as the server sees it."""

import asyncio
import gc

from qkv.serving.workers.jobs import Load
from qkv.serving.workers.pool import WorkerProcess
from tests.support.loops import in_a_loop_of_its_own


def futures() -> int:
    gc.collect()
    return sum(issubclass(type(each), asyncio.Future) for each in gc.get_objects())


def test_waiting_in_vain_for_the_death_of_a_process_leaves_nothing_behind() -> None:
    """The queue waits for it with every batch; asyncio itself remembers each such wait for as long as the process
    lives."""

    async def wait_in_vain() -> None:
        worker = WorkerProcess(Load())
        await worker.start()
        try:
            before = futures()
            for _ in range(100):
                waiting = asyncio.create_task(worker.died())
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait({waiting})
            assert futures() < before + 50
            dying = asyncio.create_task(worker.died())
            await worker.stop()
            await dying
            assert not worker.ready.is_set()
        finally:
            await worker.stop()

    in_a_loop_of_its_own(wait_in_vain())
