"""A worker process of the server: `python -m qkv.serving.workers.worker MODELS [MEGABYTES]`, its limits in memory.

It reads frames (see `jobs`) from standard input and writes an answer for each job to what was its standard output. When
standard input closes, because the server is done or dead, the worker exits at once.
"""

import os
import signal
import sys
import threading
import time
import traceback
from pickle import loads
from queue import SimpleQueue
from typing import Any, BinaryIO

import torch

from qkv.core.errors import QkvError
from qkv.kernels.memory import keep_freed_memory
from qkv.serving.workers.jobs import LENGTH, BatchJob, Cancel, Done, Failed, Load, Progress, frame
from qkv.serving.workers.work import LoadedModels, Outside, done, engine_of


class Cancelled(Exception):
    """The job was cancelled while it was being worked on."""


class BatchWorker:
    """Answers jobs one after the other."""

    def __init__(self, answers: BinaryIO, models: LoadedModels) -> None:
        self.answers, self.models = answers, models
        self.cancelled = -1
        """The number of the newest job that was cancelled."""

    def answer(self, message: BatchJob | Load) -> None:
        self._write(self._result(message))

    def _write(self, message: Done | Failed | Progress) -> None:
        self.answers.write(frame(message))
        self.answers.flush()

    def _result(self, message: BatchJob | Load) -> Done | Failed:
        began = time.perf_counter()
        try:
            if isinstance(message, Load):
                for model in message.models:
                    self.models.translator(model).translate("")
                return Done([])
            results = done(message, self._outside(message.number))
            return Done(results, engine_of(message, self.models), time.perf_counter() - began)
        except Cancelled:
            return Failed("cancelled", usage=False)
        except QkvError as error:
            return Failed(str(error), usage=error.exit_code == 2)
        except Exception as error:
            # Its message may quote a text, which must not be logged.
            traceback.print_tb(error.__traceback__)
            return Failed(type(error).__name__, usage=False)

    def _outside(self, number: int) -> Outside:
        def go_on() -> None:
            if self.cancelled == number:
                raise Cancelled

        def tell(place: int, news: Any) -> None:
            self._write(Progress(place, news))

        return Outside(self.models, go_on, tell)


def main() -> None:
    # The server decides when its workers end; a terminal sends Ctrl-C to all of them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    keep_freed_memory()
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    most, *megabytes = sys.argv[1:]
    worker = BatchWorker(answers, LoadedModels(int(most), *map(float, megabytes)))
    messages: SimpleQueue[BatchJob | Load] = SimpleQueue()
    threading.Thread(target=_read, args=(messages, worker), daemon=True).start()
    while True:
        worker.answer(messages.get())


def _read(messages: "SimpleQueue[BatchJob | Load]", worker: BatchWorker) -> None:
    """Runs in a thread of its own, so that a cancelled job and the end of input are noticed in the middle of a job."""
    source = sys.stdin.buffer
    try:
        while header := source.read(LENGTH.size):
            message = loads(source.read(LENGTH.unpack(header)[0]))
            if isinstance(message, Cancel):
                worker.cancelled = message.number
            else:
                messages.put(message)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
