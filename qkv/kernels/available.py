"""How much memory this process may still take: what the machine has, its container allows, and `ulimit -v` leaves."""

import resource
from contextlib import suppress
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_STATM = Path("/proc/self/statm")


def available_memory() -> int | None:
    """In bytes; None where the system does not tell."""
    found = [bytes_left for bytes_left in (_machine(), _container(), _limit()) if bytes_left is not None]
    return max(0, min(found)) if found else None


def _machine() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None


def _container() -> int | None:
    """Version 2 of control groups; what is cached of files is given back when it is needed."""
    with suppress(OSError, ValueError):
        most = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        if most != "max":
            used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
            lines = (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines()
            cached = sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
            return int(most) - used + cached
    return None


def _limit() -> int | None:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return None
    with suppress(OSError, ValueError, IndexError):
        return most - int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    return most
