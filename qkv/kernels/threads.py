"""How many cores there are, and how many of them PyTorch uses for one operation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from qkv.core.errors import UsageError


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bounded_workers(wanted: int | Literal["auto"], key: str) -> int:
    """The largest number of worker processes: the number of cores, or QKV_MAX_WORKERS."""
    if wanted == "auto":
        return cores()
    allowed = os.environ.get("QKV_MAX_WORKERS", "0")
    if not allowed.isdecimal():
        raise UsageError(f"QKV_MAX_WORKERS={allowed}: must be a whole number")
    most = max(cores(), int(allowed))
    if wanted > most:
        raise UsageError(
            f"{key}={wanted:,}: this process may use {cores()} cores, and more workers would only take memory; give at "
            f"most {most}, or set QKV_MAX_WORKERS={wanted} to start so many all the same"
        )
    return wanted


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """Context manager that sets the number of threads of an operation, and restores it on exit."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
