"""qkv config"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="What a recipe can say.")

GENERATED = "*Generated from the code; `qkv config reference > docs/configuration.md` writes it again.*"


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of recipes, for editors."""
    import json

    from qkv.config.reference import schema as json_schema
    from qkv.training.recipe import Recipe

    print(json.dumps(json_schema(Recipe), indent=2))


@app.command("reference")
def reference() -> None:
    """Print every key of a recipe with its type, default and meaning, as Markdown."""
    from qkv.config.reference import reference_page
    from qkv.training.recipe import Recipe

    title, rest = reference_page(Recipe).split("\n\n", 1)
    print(title, GENERATED, rest, sep="\n\n", end="")


@app.command("show")
def show(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a YAML file.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, as key.sub=value.")] = None,
) -> None:
    """Print a recipe with presets, defaults and overrides filled in."""
    from qkv.config import dump_config, load_config
    from qkv.training.recipe import Recipe

    print(dump_config(load_config(Recipe, recipe, overrides or [])), end="")
