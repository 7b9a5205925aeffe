"""A large file through `qkv translate`: are all cores busy, and does memory stay flat?

    python benchmarks/translate_stream.py MODEL --text FILE [--lines 100000] [--engine torch]

The lines of FILE are repeated until there are enough. Busy is the processor time of the whole process tree over time x
cores, starting up and loading the model included. Memory is the sum of the resident sets of the tree, sampled twice a
second; "grew by" compares the mean of the last third of the job with that of the second third. A JSON line at the end.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="the folder of a model or of a run")
    parser.add_argument("--text", type=Path, required=True, help="a file of source lines")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("settings", nargs="*", help="settings of the search, such as search.kind=greedy")
    options = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "source.txt"), Path(folder, "output.txt")
        with options.text.open(encoding="utf-8") as text, source.open("w", encoding="utf-8") as file:
            file.writelines(islice(cycle(text.readlines()), options.lines))
        command = [sys.executable, "-c", "from qkv.cli import main; main()", "translate", str(options.model)]
        command += [*options.settings, "--engine", options.engine, "--input", str(source), "--output", str(output)]
        measured = measure(command)
        with output.open(encoding="utf-8") as file:
            lines = sum(1 for _ in file)
    if lines != options.lines:
        sys.exit(f"{lines} lines came out for {options.lines}")
    settings = {"engine": options.engine, "settings": options.settings}
    print(json.dumps({"lines": lines, **settings, "cores": CORES, **measured}))


def measure(command: list[str]) -> dict[str, float]:
    """Run the command and watch it."""
    samples: list[float] = []
    began = time.monotonic()
    process = subprocess.Popen(command)
    watcher = threading.Thread(target=watch, args=(process, samples))
    watcher.start()
    if process.wait():
        sys.exit(process.returncode)
    seconds = time.monotonic() - began
    watcher.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    return {
        "seconds": round(seconds, 1),
        "busy": round((used.ru_utime + used.ru_stime) / (seconds * CORES), 3),
        "peak_mib": round(max(samples)),
        "grew_by": round(mean(last) / mean(middle) - 1, 3),
    }


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def watch(process: "subprocess.Popen[bytes]", samples: list[float]) -> None:
    """Append the resident memory of the process tree in MiB, twice a second, while it lives."""
    while process.poll() is None:
        samples.append(sum(map(resident, tree(process.pid))) / 2**20)
        time.sleep(0.5)


def tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended since
        return
    for child in children:
        yield from tree(int(child))


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):  # it has ended since
        return 0


if __name__ == "__main__":
    main()
