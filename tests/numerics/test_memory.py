"""Keeping freed memory: a run in a fresh process, since the setting cannot be taken back."""

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
