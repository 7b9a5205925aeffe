"""What memory the process of a measurement had at most, and how to limit it."""

import resource
import sys

GIGABYTE = 1 << 30


def peak_bytes() -> int:
    """The most memory that this process ever had resident (Linux counts in KiB, macOS in bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def allow(gigabytes: float) -> None:
    """From now on an allocation beyond so much data fails, and the process ends with what `ran_out` recognises."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(gigabytes * GIGABYTE), resource.RLIM_INFINITY))


def ran_out(stderr: str) -> bool:
    """Whether a process ended because an allocation failed."""
    return any(sign in stderr for sign in ("allocate memory", "MemoryError", "bad_alloc"))
