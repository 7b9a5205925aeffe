"""Runs that a benchmark trains: each is a process of its own, and one that was interrupted is resumed."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from qkv.training.run.folder import RunFolder


def train_or_resume(run: RunFolder, recipe: Path | str, settings: Sequence[str]) -> None:
    how = ["--resume", str(run.path)] if run.is_used() else [str(recipe), f"run={run.path}", *settings]
    # A process of its own: each run begins with fresh memory and its own number of threads.
    subprocess.run([sys.executable, "-c", "from qkv.cli import main; main()", "train", *how], check=True)
