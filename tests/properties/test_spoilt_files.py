"""A few cases of `benchmarks/fuzz_files.py`: whatever stands in a file, it is read or refused by one sentence."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_spoilt_files_are_read_or_refused() -> None:
    command = [sys.executable, "benchmarks/fuzz_files.py", "--cases", "25", "--seed", "7"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    *each, last = ended.stdout.splitlines()
    assert len(each) > 25
    assert all(": 25 cases, " in line and " 0 wrong, " in line for line in each), ended.stdout
    assert last == f"{len(each)} files, {25 * len(each)} cases, 0 wrong"
