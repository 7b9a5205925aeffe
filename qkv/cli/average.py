"""qkv average"""

from pathlib import Path
from typing import Annotated

import typer


def average(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="Average this many of the newest checkpoints.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="Average this many of the best checkpoints.")] = None,
) -> None:
    """Average the weights of several checkpoints of a run into one model."""
    from qkv.training.average import average_run

    used = average_run(run, out, last=last, best=best)
    typer.echo(f"{out}: the average of {', '.join(folder.name for folder in used)}", err=True)
