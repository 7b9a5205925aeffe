"""What the processes of a server use, from /proc."""

import contextlib
import os
import re
import subprocess
from pathlib import Path


def workers_of(server: int) -> list[int]:
    """The worker processes of a server."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    return [int(pid) for pid, above, command in rows if above == str(server) and "workers.worker" in command]


def memory_mb(*processes: int) -> float:
    """The resident memory of some processes."""
    found = 0
    for pid in processes:
        with contextlib.suppress(OSError):
            match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
            found += int(match[1]) if match else 0
    return found / 1024


def cpu_seconds(*processes: int) -> float:
    """The processor time of some processes so far."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in processes]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def descriptors(*processes: int) -> int:
    """The open files, pipes and connections of some processes."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in processes)
