"""How many cores there are, and how many of them PyTorch uses for one operation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """Inside, an operation uses so many threads; afterwards, as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
