"""What the tests of `qkv translate` share: its usual options, sixty lines, and how a command ended."""

import subprocess
import sys
from pathlib import Path

from tests.support.forks import Ended, buffered
from tests.support.speaker import sentences

QKV = f"'{sys.executable}' -c 'from qkv.cli import main; main()'"
TORCH = ("--engine", "torch")
GREEDY = ("search=greedy", "search.max_factor=1", *TORCH)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def quiet(ended: Ended) -> str:
    """The output of a command that went well."""
    assert ended.code == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


def refused(ended: Ended, code: int) -> str:
    assert ended.code == code, ended.stderr
    return ended.complaint


def in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """With pipes; it fails where one part of it does."""
    shell = ["bash", "-o", "pipefail", "-c", command]
    return subprocess.run(shell, capture_output=True, text=True, check=False, env=buffered())


def written_lines(path: Path) -> Path:
    """Sixty lines."""
    return written(path, "".join(line + "\n" for line in sentences(60)).encode())
