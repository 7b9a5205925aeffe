"""A worker process that translates chunks: `python -m qkv.translate.jobs.worker DESCRIPTOR`.

It reads pickles from standard input, first a `Setup`, then chunks, and writes the answers to the open file
DESCRIPTOR. When standard input closes, because the parent is done or dead, the worker exits at once.
"""

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch

from qkv.core.errors import QkvError
from qkv.engines.choose import Engines
from qkv.engines.fast_engines import EngineName
from qkv.engines.model_set import ModelSet
from qkv.engines.torch_engine import PLAIN, TorchSettings
from qkv.kernels.memory import keep_freed_memory
from qkv.search.base import SearchConfig
from qkv.translate.output import Translation
from qkv.translate.texts import DecodeOptions, Reading, TextDecoder


@dataclass(frozen=True)
class Setup:
    """Everything that a worker needs."""

    folders: Sequence[Path]
    checksums: Sequence[str]
    search: SearchConfig
    options: DecodeOptions
    batch_tokens: int | None
    reading: Reading
    engine: EngineName = "torch"
    """By its name: nothing is chosen here."""
    device: str = "cpu"
    torch: TorchSettings = PLAIN

    def open(self) -> TextDecoder:
        models = ModelSet(self.folders, self.device)
        if models.checksums != list(self.checksums):
            raise QkvError(f"{self.folders[0]}: the model was replaced while its workers were starting; start again")
        engine = Engines(models, self.engine, 1, self.reading.max_src_tokens, self.torch).named(self.engine)
        return TextDecoder(engine, models.tokenizers, self.search, self.options, self.batch_tokens, self.reading)


Answer = list[Translation] | QkvError


def main(descriptor: str) -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    answers = os.fdopen(int(descriptor), "wb")
    requests: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    setup: Setup = requests.get()
    decoder = None
    while True:
        chunk = requests.get()
        answer: Answer
        try:
            decoder = decoder or setup.open()
            answer = decoder(chunk)
        except QkvError as error:
            answer = error
        except Exception as error:
            if os.environ.get("QKV_DEBUG"):
                traceback.print_exc()
            answer = QkvError(f"a worker process failed: {type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


def _read(requests: "SimpleQueue[Any]") -> None:
    """Runs in a separate thread, so that the end of input is noticed in the middle of a chunk."""
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))
    except (EOFError, OSError):
        os._exit(0)
    except Exception as error:
        # For example a kind of search that only the parent knows; the parent reports that the worker has ended.
        print(f"qkv: worker: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
