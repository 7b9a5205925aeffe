"""A pool of worker processes with one thread each: for a small model, faster than one process with several threads."""

import os
import pickle
import signal
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import SimpleQueue

from qkv.core.child import child_command
from qkv.core.errors import QkvError
from qkv.search.hypothesis import Hypothesis
from qkv.translate.jobs.worker import Answer, Setup
from qkv.translate.output import Translation
from qkv.translate.texts import PreparedTexts, SourceText, TextDecoder

Waiting = tuple[PreparedTexts, list[Future[list[list[Hypothesis]]]]]


def translate_in_threads(decoder: TextDecoder, chunks: Iterable[list[SourceText]]) -> Iterator[list[Translation]]:
    """The translations of each chunk, in order. The batches of the next chunk are ready before one is finished."""
    waiting: deque[Waiting] = deque()

    def finished() -> list[Translation]:
        prepared, batches = waiting.popleft()
        return decoder.finish(prepared, [batch.result() for batch in batches])

    with ThreadPoolExecutor(decoder.engine.parallel) as threads:
        try:
            for chunk in chunks:
                prepared = decoder.prepare(chunk)
                waiting.append((prepared, [threads.submit(decoder.decode, prepared, own) for own in prepared.batches]))
                if len(waiting) > 1:
                    yield finished()
            while waiting:
                yield finished()
        finally:
            # Running batches are finished; the rest are cancelled.
            threads.shutdown(wait=False, cancel_futures=True)


AHEAD = 2
"""Chunks read ahead per worker, so that none has to wait."""
HEED = 1.0
"""Seconds after which a signal is handled at the latest: one that arrives as the main thread begins to wait, or in
another thread, does not wake it.
"""


def command(descriptor: int) -> list[str]:
    """The command that starts a worker, which answers through an open file."""
    return child_command("qkv.translate.jobs.worker", str(descriptor))


class Worker:
    """A worker process, connected by two pipes."""

    def __init__(self, setup: Setup) -> None:
        answers, other_end = os.pipe()
        try:
            # A separate session: Ctrl-C reaches this process only, and the workers end when their pipe closes.
            self.process = subprocess.Popen(
                command(other_end),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[other_end],
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        finally:
            os.close(other_end)
        self.answers = os.fdopen(answers, "rb")
        self._send(setup)

    def _send(self, message: object) -> None:
        assert self.process.stdin
        # A dead process is noticed when its answer does not arrive.
        with suppress(BrokenPipeError):
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()

    def translate(self, chunk: list[SourceText]) -> list[Translation]:
        self._send(chunk)
        try:
            answer: Answer = pickle.load(self.answers)
        except EOFError as error:
            raise QkvError(f"a worker process {self._end()}; start again, or use one worker only") from error
        if isinstance(answer, QkvError):
            raise answer
        return answer

    def _end(self) -> str:
        code = self.process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Close the pipes, once nothing waits for an answer."""
        assert self.process.stdin
        self.answers.close()
        # What was still buffered for a dead process does not matter.
        with suppress(BrokenPipeError):
            self.process.stdin.close()


def _result(future: Future[list[Translation]]) -> list[Translation]:
    while not wait([future], HEED).done:
        pass
    return future.result()


def translate_in_team(setup: Setup, workers: int, chunks: Iterable[list[SourceText]]) -> Iterator[list[Translation]]:
    """Yields the translations of each chunk, in order. No process outlives the generator."""
    team: list[Worker] = []
    idle: SimpleQueue[Worker] = SimpleQueue()

    def translate(chunk: list[SourceText]) -> list[Translation]:
        worker = idle.get()
        try:
            return worker.translate(chunk)
        finally:
            idle.put(worker)

    waiting: deque[Future[list[Translation]]] = deque()
    threads = ThreadPoolExecutor(workers)
    try:
        for chunk in chunks:
            # Start no worker that would have nothing to do.
            if len(team) < workers:
                # In a thread of the pool, since a worker dies with the thread that started it.
                team.append(threads.submit(Worker, setup).result())
                idle.put(team[-1])
            waiting.append(threads.submit(translate, chunk))
            if len(waiting) >= AHEAD * workers:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())
    finally:
        # Killing a worker releases the thread that waits for its answer.
        for worker in team:
            worker.kill()
        threads.shutdown(cancel_futures=True)
        for worker in team:
            worker.close()
