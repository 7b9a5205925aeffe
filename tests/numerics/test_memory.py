"""Keeping and returning freed memory: in a fresh process, since the settings last as long as it."""

import subprocess
import sys

import pytest

# Blocks above 32 MiB go back to the kernel whatever was freed before, unless glibc is told otherwise.
PROGRAM = """
import ctypes, resource, sys, torch
from qkv.kernels.memory import LARGEST_THRESHOLD, M_MMAP_THRESHOLD, keep_freed_memory
kept = 0
if sys.argv[1] == "keep" and keep_freed_memory():
    kept = ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
def faults(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        torch.zeros(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults(15)
print(kept, faults(10))
"""


def run(wish: str) -> tuple[bool, int]:
    """Whether the C library agreed, and the page faults of ten blocks of 40 MB."""
    result = subprocess.run([sys.executable, "-c", PROGRAM, wish], capture_output=True, text=True, check=True)
    kept, faults = result.stdout.split()
    return kept == "1", int(faults)


def test_large_blocks_are_reused_with_fewer_page_faults() -> None:
    kept, faults = run("keep")
    if not kept:
        pytest.skip("only glibc has this setting")
    assert faults * 2 < run("default")[1]


GATHERED = """
import resource, sys, torch
from qkv.kernels.memory import return_freed_memory
returned = sys.argv[1] == "return" and return_freed_memory()
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 20
torch.ones(4_000_000)
before = resident()
# Like layers that are put together and freed again, with something small and lasting behind each.
lasting = []
for size in range(1, 21):
    whole = torch.ones(size * 200_000)
    lasting.append(torch.ones(1000))
    del whole
print(int(returned), resident() - before)
"""


def test_what_is_put_together_and_freed_does_not_stay_in_a_sharded_run() -> None:
    found = subprocess.run([sys.executable, "-c", GATHERED, "return"], capture_output=True, text=True, check=True)
    returned, stayed = map(int, found.stdout.split())
    if not returned:
        pytest.skip("only glibc has this setting")
    assert stayed < 8
