"""Keep freed memory inside the process.

glibc returns every freed block above 128 KiB to the kernel, and the next allocation of that size is
then paid page by page. A training step frees and allocates hundreds of such blocks; keeping them made
whole steps 1.6 to 3 times faster on a CPU.
"""

import ctypes
import sys

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
LARGEST_THRESHOLD = 1 << 30
OLD_LARGEST_THRESHOLD = 32 << 20
"""What older versions of glibc accept at most."""


def keep_freed_memory() -> bool:
    """Tell glibc to reuse freed memory rather than return it; True if it agreed, False anywhere else."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        # Another C library, such as musl.
        return False
    mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    mallopt.restype = ctypes.c_int
    kept = mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD) or mallopt(M_MMAP_THRESHOLD, OLD_LARGEST_THRESHOLD)
    return bool(kept) and bool(mallopt(M_TRIM_THRESHOLD, LARGEST_THRESHOLD))
