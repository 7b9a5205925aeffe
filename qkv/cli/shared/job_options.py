"""The options of commands that translate whole files."""

from pathlib import Path
from typing import Annotated

import typer

Ensemble = Annotated[list[Path] | None, typer.Option("--with", help="Another model for an ensemble; repeatable.")]
Engine = Annotated[
    str, typer.Option(help="What runs the model: torch, ctranslate2, onnxruntime; auto: the fastest that can.")
]
Beam = Annotated[int | None, typer.Option(min=1, help="Short for search.size=N.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each core.")]
NewFolder = Annotated[Path, typer.Option(help="The new folder; the same command again resumes a stopped job.")]
On = Annotated[
    str | None,
    typer.Option(
        metavar="ray|HOST:PORT",
        help="Run on a Ray cluster: that of RAY_ADDRESS, or a new one on these cores; or that of a head node.",
    ),
]
Column = Annotated[str, typer.Option(help="With --on: the column of the texts in JSON lines and Parquet.")]
RowsPerShard = Annotated[
    int, typer.Option(min=1, help="With --on: rows that are committed together, a multiple of 512.")
]
Restart = Annotated[bool, typer.Option("--restart", help="Start the job of --out again from the first line.")]
