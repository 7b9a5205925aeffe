"""qkv init"""

from pathlib import Path
from typing import Annotated

import typer


def init(
    data: Annotated[
        list[Path],
        typer.Argument(help="A table (tsv, csv, jsonl, parquet), a folder, or two text files: source, target."),
    ],
    out: Annotated[Path, typer.Option(help="The recipe to write.")] = Path("recipe.yaml"),
) -> None:
    """Write a recipe that fits your pairs, with a comment on each choice."""
    from qkv.core.errors import UsageError
    from qkv.core.files import write_atomic
    from qkv.core.progress import default_reporter
    from qkv.recipes.init import new_recipe

    if out.exists():
        raise UsageError(f"{out}: exists already; choose another name with --out")
    reporter = default_reporter(quiet=2.0)
    try:
        text, run = new_recipe(data, reporter.counting("Reading"))
    finally:
        reporter.close()
    write_atomic(out, text)
    typer.echo(f"{out}: written; read it, then: qkv train {out}, and after that: qkv evaluate {run}", err=True)
