"""What the tests of `qkv translate` share: its usual options, sixty lines, and how a command ended."""

import sys
from pathlib import Path

from tests.support.forks import Ended
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


def written_lines(path: Path) -> Path:
    """Sixty lines."""
    return written(path, "".join(line + "\n" for line in sentences(60)).encode())
