"""qkv config"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="The keys of recipes and of decoding.")

GENERATED = "*Generated from the code; `qkv config reference > docs/configuration.md` writes it again.*"
TRAINING = f"{GENERATED}\n\nThe keys of a complete run, in a file or as `key.sub=value` behind `qkv train`."
USING = (
    "The keys of `qkv translate`, `qkv evaluate`, `qkv compare` and `qkv show beam`, as `key.sub=value` on the command "
    "line. A recipe does not have them, except `validation.search`; the kinds of search are listed above."
)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of recipes, for editors."""
    import json

    from qkv.config.reference import schema as json_schema
    from qkv.training.recipe import Recipe

    print(json.dumps(json_schema(Recipe), indent=2))


@app.command("reference")
def reference() -> None:
    """Print every key with its type, default and meaning, as Markdown: those of recipes, then those of decoding."""
    from qkv.config.reference import reference_page
    from qkv.training.recipe import Recipe
    from qkv.translate.settings import TranslationConfig

    print(reference_page(Recipe, "Recipe", TRAINING))
    print(reference_page(TranslationConfig, "Using a model", USING, behind=Recipe), end="")


@app.command("show")
def show(
    recipe: Annotated[Path, typer.Argument(help="The recipe: a YAML file, or a name of qkv recipe list.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, as key.sub=value.")] = None,
) -> None:
    """Print a recipe with presets, defaults and overrides filled in."""
    from qkv.config import dump_config
    from qkv.recipes import load_recipe

    print(dump_config(load_recipe(recipe, overrides or [])), end="")
