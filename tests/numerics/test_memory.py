"""Keeping freed memory: a run in a fresh process, since the setting cannot be taken back."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from qkv.kernels.memory import keep_freed_memory
kept = sys.argv[1] == "keep" and keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        blocks = [torch.zeros(1_000_000) for _ in range(20)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(int(kept), faults())
"""


def run(wish: str) -> tuple[bool, int]:
    """Whether the C library agreed, and the page faults of a hundred blocks of 4 MB."""
    result = subprocess.run([sys.executable, "-c", PROGRAM, wish], capture_output=True, text=True, check=True)
    kept, faults = result.stdout.split()
    return kept == "1", int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has this setting")
def test_large_blocks_are_reused_without_page_faults() -> None:
    kept, faults = run("keep")
    if not kept:
        pytest.skip("this C library has no such setting")
    assert faults * 10 < run("default")[1]
