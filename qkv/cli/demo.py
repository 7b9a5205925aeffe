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
    from qkv.demo import demo_trainer, pronounce_held_out
    from qkv.progress import default_reporter

    trainer = demo_trainer(folder, minutes, words)
    if trainer.resuming:
        typer.echo(f"going on with the model in {folder}; remove that folder to begin again", err=True)
    else:
        typer.echo(f"learning to pronounce English for {minutes:g} minutes; the data is in {folder}", err=True)
    result = trainer.train()
    if not result.finished:
        raise typer.Exit(result.exit_code)
    reporter = default_reporter()
    try:
        found = pronounce_held_out(folder, reporter.counting("Pronouncing"))
    finally:
        reporter.close()
    print("\n".join(found.lines()))
