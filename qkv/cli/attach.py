"""qkv attach"""

from pathlib import Path
from typing import Annotated

import typer


def attach(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run: an autoregressive one.")],
    drafter: Annotated[Path, typer.Argument(help="The folder of a non-autoregressive one with the same vocabulary.")],
    out: Annotated[Path | None, typer.Option(help="Write a new folder instead of changing the model's.")] = None,
) -> None:
    """Put a drafter into a model's folder: greedy search then uses it, faster and with the same output."""
    from qkv.decoding.attach import attach_drafter

    written = attach_drafter(model, drafter, out)
    typer.echo(f"{written}: carries its drafter; qkv translate {written} search.kind=greedy uses it", err=True)
