"""A process that never outlives its parent: `python -m qkv.core.child PARENT MODULE ARGUMENT...` runs a module as such.

The parent may be killed at any time, also while the child still imports its libraries, which takes seconds. So this
comes before these imports, and imports next to nothing itself.
"""

import ctypes
import os
import runpy
import signal
import sys
import threading
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
LOOK_EVERY = 0.5
"""Seconds between two checks of the parent, where the kernel does not report its death."""


def child_command(module: str, *arguments: str) -> list[str]:
    """The command that starts `module` as a child of this process.

    Linux kills the child with the thread that started it, so that thread must live as long as the child is needed.
    """
    return [sys.executable, "-m", "qkv.core.child", str(os.getpid()), module, *arguments]


def end_with(parent: int) -> None:
    """End this process when `parent` ends, or now if it has ended already."""
    if sys.platform.startswith("linux"):
        # Without prctl, the thread below notices it a little later.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
