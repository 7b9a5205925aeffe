"""The recipes of the package, by name: complete, measured runs, to use or to start from.

`qkv train reverse` trains the one of that name where there is no such file. Documentation writes it as
`recipes/reverse.yaml`, and that is understood in the same way.
"""

import difflib
from collections.abc import Sequence
from pathlib import Path

from qkv.config import load_config
from qkv.core.errors import UsageError
from qkv.training.recipe import Recipe

FOLDER = Path(__file__).parent


def recipe_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def recipe_path(name: str) -> Path:
    """The file of the recipe `name`."""
    if name in recipe_names():
        return FOLDER / f"{name}.yaml"
    near = difflib.get_close_matches(name, recipe_names(), 1)
    hint = f'did you mean "{near[0]}"? ' if near else ""
    raise UsageError(f"{name}: no recipe of qkv has this name; {hint}qkv recipe list shows them")


def recipe_text(name: str) -> str:
    return recipe_path(name).read_text(encoding="utf-8")


def title(name: str) -> str:
    """The description in a recipe's first line."""
    return recipe_text(name).partition("\n")[0].removeprefix("#").strip()


def load_recipe(recipe: Path | str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, or else the one of qkv's own that has this name, with `key.sub=value` overrides."""
    return load_config(Recipe, _found(Path(recipe)), overrides)


def _found(recipe: Path) -> Path:
    bare = recipe.name == str(recipe) and not recipe.suffix
    # Data is often in a folder of the same name; a folder is not a recipe and does not hide one.
    hidden = bare and recipe.is_dir() and recipe.name in recipe_names()
    if recipe.exists() and not hidden:
        return recipe
    if bare:
        return recipe_path(recipe.name)
    own = FOLDER / recipe.name
    return own if recipe == Path("recipes", recipe.name) and own.is_file() else recipe
