"""A worker process of the server: `python -m qkv.serving.worker`.

It reads frames (see `jobs`) from standard input and writes an answer for each job to what was its standard output. When
standard input closes, because the server is done or dead, the worker exits at once.
"""

import os
import signal
import sys
import threading
import traceback
from collections import OrderedDict
from pathlib import Path
from pickle import loads
from queue import SimpleQueue
from typing import Any, BinaryIO

import torch

from qkv.core.errors import QkvError
from qkv.kernels.memory import keep_freed_memory
from qkv.serving.jobs import LENGTH, BatchJob, Cancel, DecodeSettings, Failed, Load, frame
from qkv.translate.output import Translation
from qkv.translate.settings import translation_config
from qkv.translate.translator import Translator

MOST_MODELS = 8
"""Models in memory; the least recently used one is unloaded."""
MOST_SEARCHES = 32
"""Different search settings that are kept for each model."""


class Cancelled(Exception):
    """The job was cancelled while it was being decoded."""


class LoadedModels:
    """Translators by model and search settings, loaded when they are first used."""

    def __init__(self, most: int = MOST_MODELS) -> None:
        self.most = most
        self._models: OrderedDict[tuple[Path, str], OrderedDict[tuple[str, ...], Translator]] = OrderedDict()

    def translator(self, model: Path, engine: str, overrides: tuple[str, ...] = ()) -> Translator:
        """The translator with these settings."""
        known = self._models.setdefault((model, engine), OrderedDict())
        self._models.move_to_end((model, engine))
        if overrides not in known:
            settings = translation_config(overrides, model)
            shared = next(iter(known.values()), None)
            known[overrides] = (
                shared.with_search(settings.search) if shared else settings.translator([model], engine, workers=1)
            )
        known.move_to_end(overrides)
        _keep_newest(known, MOST_SEARCHES)
        _keep_newest(self._models, self.most)
        return known[overrides]


def _keep_newest(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


class BatchWorker:
    """Answers jobs one after the other."""

    def __init__(self, answers: BinaryIO) -> None:
        self.answers = answers
        self.models = LoadedModels()
        self.cancelled = -1
        """The number of the newest job that was cancelled."""

    def answer(self, message: BatchJob | Load) -> None:
        result = self._result(message)
        self.answers.write(frame(result))
        self.answers.flush()

    def _result(self, message: BatchJob | Load) -> list[Translation] | Failed:
        try:
            if isinstance(message, Load):
                self.models.translator(message.model, message.engine, message.overrides).translate("")
                return []
            return self._translate(message)
        except Cancelled:
            return Failed("cancelled", usage=False)
        except QkvError as error:
            return Failed(str(error), usage=error.exit_code == 2)
        except Exception as error:
            # Its message may quote a text, which must not be logged.
            traceback.print_tb(error.__traceback__)
            return Failed(type(error).__name__, usage=False)

    def _translate(self, job: BatchJob) -> list[Translation]:
        decoding: DecodeSettings = job.decoding
        translator = self.models.translator(decoding.model, decoding.engine, decoding.overrides)
        decoder = translator.compared(decoding.options, job.sources)

        def stop_if_cancelled(done: int) -> None:
            if self.cancelled == job.number:
                raise Cancelled

        return decoder(job.sources, stop_if_cancelled)


def main() -> None:
    # The server decides when its workers end; a terminal sends Ctrl-C to all of them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    keep_freed_memory()
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    worker = BatchWorker(answers)
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
