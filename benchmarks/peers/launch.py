"""Runs a command of ours or of a peer."""

import subprocess
from pathlib import Path


def launch(command: list[str], log: Path) -> None:
    """Run it to its end; its output goes to `log`, whose last lines are shown if it fails."""
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    if status:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
        raise SystemExit(f"{tail}\n{' '.join(command)}: exit status {status}; the whole log is {log}")
