"""What the Translator does with a list of texts: the most that a server with the same model could reach.

    python benchmarks/offline_rate.py es-en --texts test.spa

prints texts a second of one process for each core, as `qkv serve` has its workers, and of as many threads of one
process.
"""

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

Search = dict[str, Any] | None
"""Settings of the search; None: the model's own."""


class Part(NamedTuple):
    """What one process did."""

    began: float
    ended: float
    cpu_seconds: float


def offline_rate(model: str, search: Search, texts: list[str], processes: int) -> dict[str, float]:
    """Texts a second of so many processes of one thread, each of which translates all of them, and the processor time
    of a text. None begins before all have loaded the model."""
    spawning = multiprocessing.get_context("spawn")
    barrier, queue = spawning.Barrier(processes), spawning.Queue()
    team = [spawning.Process(target=_translate, args=(model, search, texts, barrier, queue)) for _ in range(processes)]
    for process in team:
        process.start()
    parts = [queue.get() for _ in team]
    for process in team:
        process.join()
    seconds = max(part.ended for part in parts) - min(part.began for part in parts)
    count = processes * len(texts)
    return {
        "texts_per_second": count / seconds,
        "cpu_ms_per_text": 1000 * sum(part.cpu_seconds for part in parts) / count,
    }


def threads_rate(model: str, texts: list[str], threads: int) -> dict[str, float]:
    """The same with threads of one process, which share one model."""
    import torch

    from qkv import Translator

    torch.set_num_threads(1)
    translator = Translator(model, workers=threads)
    translator.translate(texts[:64])
    began, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda own: translator.translate(own, token_scores=False), [texts] * threads))
    count, seconds = threads * len(texts), time.perf_counter() - began
    return {"texts_per_second": count / seconds, "cpu_ms_per_text": 1000 * (time.process_time() - used) / count}


def _translate(model: str, search: Search, texts: list[str], barrier: Barrier, queue: Any) -> None:
    import torch

    from qkv import Translator

    torch.set_num_threads(1)
    translator = Translator(model, search=search, workers=1)
    translator.translate(texts[:64])
    barrier.wait()
    began, used = time.perf_counter(), time.process_time()
    translator.translate(texts, token_scores=False)
    queue.put(Part(began, time.perf_counter(), time.process_time() - used))


def seconds_alone(model: str, search: Search, texts: list[str]) -> list[float]:
    """Of each text that is translated alone, in one thread."""
    import torch

    from qkv import Translator

    torch.set_num_threads(1)
    translator = Translator(model, search=search, workers=1)
    translator.translate(texts[0])
    seconds = []
    for text in texts:
        began = time.perf_counter()
        translator.translate([text], token_scores=False)
        seconds.append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    from qkv.kernels.threads import cores

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--texts", type=Path, required=True, help="sources, one a line")
    options = parser.parse_args()
    # No more than the Translator would take for a stream of their own, which it spreads over processes itself.
    lines = options.texts.read_text(encoding="utf-8").splitlines()[:500]
    print(json.dumps({"processes": offline_rate(options.model, None, lines, cores())}))
    print(json.dumps({"threads": threads_rate(options.model, lines, cores())}))
