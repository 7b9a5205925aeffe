"""Standard streams that a shell closed, as `2>&-` does: replaced by the null device before anything is opened.

Python sets `sys.stderr` to None then, and gives the number of the closed stream to the next file that is opened: what
a library prints would be written into that file.
"""

import os
import sys

from qkv.core.errors import QkvError

NAMES = ("stdin", "stdout", "stderr")
_closed: set[str] = set()


def open_closed_streams() -> None:
    """Afterwards all three streams are open: a closed one reads nothing and discards what is written."""
    for number, name in enumerate(NAMES):
        if getattr(sys, name) is None:
            _closed.add(name)
            null = os.open(os.devnull, os.O_RDWR)
            if null != number and not _is_open(number):
                os.dup2(null, number)
                os.close(null)
                null = number
            setattr(sys, name, open(null, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: SIM115  # stays open


def require_stdout() -> None:
    """For a verb whose result is what it prints."""
    if "stdout" in _closed:
        raise QkvError("standard output is closed, so the result would be lost; write it to a file with > FILE")


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
