"""qkv init and qkv recipe: a recipe for your pairs, and those that come with the package"""

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


app = typer.Typer(
    no_args_is_help=True, help="The recipes that come with qkv: list them, read them, copy one to change."
)

Name = Annotated[str, typer.Argument(help="One of the names that qkv recipe list prints.")]


@app.command("list")
def list_() -> None:
    """Print the names of the recipes and what each of them trains."""
    from qkv.recipes import recipe_names, title

    width = max(map(len, recipe_names()))
    for name in recipe_names():
        print(f"{name:{width}}  {title(name)}")


@app.command("show")
def show(name: Name) -> None:
    """Print a recipe, with its comments."""
    from qkv.recipes import recipe_text

    print(recipe_text(name), end="")


@app.command("copy")
def copy(
    name: Name,
    dest: Annotated[
        Path | None, typer.Argument(help="The file to write, or a folder for it; default: NAME.yaml.")
    ] = None,
) -> None:
    """Copy a recipe, to change it."""
    from qkv.core.errors import UsageError
    from qkv.core.files import write_atomic
    from qkv.recipes import recipe_text

    text = recipe_text(name)
    path = dest or Path()
    path = path / f"{name}.yaml" if path.is_dir() else path
    if path.exists():
        raise UsageError(f"{path}: exists already; name another file")
    write_atomic(path, text)
    typer.echo(f"{path}: copied; train it with: qkv train {path}", err=True)
