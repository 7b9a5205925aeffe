"""Does any file that qkv reads end in a traceback, a crash or a hang? Each is spoilt thousands of times, and read.

The files of a small model, of a run, of prepared data and of a job, corpora of every kind and recipes are made once.
Each case spoils one of them, renews the manifest of its folder (as an attacker would), and calls the
function that reads it. Right are: it is read, or it is refused by one sentence. A case is a function of --seed, the
name of the file and its number: --only FILE --first N --cases 1 repeats it.
"""

import argparse
import mmap
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from fuzz_targets import Target, make_targets

from qkv.core.errors import QkvError

LONGEST = 20
"""Seconds that one case may take on a busy machine."""


class Hang(BaseException):
    """A case took too long."""


def _too_long(*_: object) -> None:
    raise Hang


def run_case(target: Target, number: int, seed: int) -> bool:
    """Whether the spoilt file was read; False: it was refused."""
    target.spoil(random.Random(f"{seed} {target.name} {number}"))
    signal.alarm(LONGEST)
    try:
        target.read()
        return True
    except QkvError as refusal:
        sentence = str(refusal)
        assert sentence, "a refusal without a word"
        sentence.encode()
        return False
    finally:
        signal.alarm(0)


def run_cases(target: Target, first: int, last: int, seed: int, counts: mmap.mmap) -> int:
    """In a process of its own. `counts` holds the number of the case, how many were read, and how many went wrong."""
    signal.signal(signal.SIGALRM, _too_long)
    warnings.simplefilter("ignore")
    sys.stderr.flush()
    for number in range(first, last):
        _put(counts, 0, number)
        try:
            _put(counts, 1, _get(counts, 1) + run_case(target, number, seed))
        except (Exception, Hang) as error:
            _put(counts, 2, _get(counts, 2) + 1)
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {str(error)[:200]!r}"
            print(f"{target.name} {number}: {what} at {place.filename}:{place.lineno}")
            sys.stdout.flush()
    return 0


def fuzz(target: Target, first: int, cases: int, seed: int) -> int:
    """How many cases went wrong."""
    target.read()  # as it is, it must be read
    counts = mmap.mmap(-1, 24)
    start, last = first, first + cases
    began = time.monotonic()
    while start < last:
        pid = os.fork()
        if pid == 0:
            os._exit(run_cases(target, start, last, seed, counts))
        status = os.waitpid(pid, 0)[1]
        start = last
        if status:
            _put(counts, 2, _get(counts, 2) + 1)
            print(f"{target.name} {_get(counts, 0)}: the process ended with {os.waitstatus_to_exitcode(status)}")
            start = _get(counts, 0) + 1
    target.restore()
    read, wrong = _get(counts, 1), _get(counts, 2)
    seconds = time.monotonic() - began
    refused = cases - read - wrong
    print(f"{target.name}: {cases:,} cases, {read:,} read, {refused:,} refused, {wrong} wrong, {seconds:.0f} s")
    sys.stdout.flush()
    return wrong


def _get(counts: mmap.mmap, place: int) -> int:
    return int.from_bytes(counts[8 * place : 8 * place + 8], "little")


def _put(counts: mmap.mmap, place: int, value: int) -> None:
    counts[8 * place : 8 * place + 8] = value.to_bytes(8, "little")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="of each file")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="files whose name begins so; several with commas")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        targets = make_targets(Path(folder))
        chosen = [target for target in targets if target.name.startswith(tuple((arguments.only or "").split(",")))]
        wrong = sum(fuzz(target, arguments.first, arguments.cases, arguments.seed) for target in chosen)
    print(f"{len(chosen)} files, {len(chosen) * arguments.cases:,} cases, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
