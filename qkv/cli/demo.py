"""qkv demo"""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[Path, typer.Option(help="Where the demonstration keeps its data and its run.")] = Path(
        "runs/demo"
    ),
    minutes: Annotated[float, typer.Option(min=0.1, help="How long to train.")] = 4.0,
    words: Annotated[int | None, typer.Option(min=100, help="Use only this many words.")] = None,
) -> None:
    """Learn to pronounce English from a dictionary, in a few minutes."""
    from qkv.demo import run_demo

    run_demo(folder, minutes, words)
