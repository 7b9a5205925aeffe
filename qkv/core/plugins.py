"""Kinds from other packages: installed ones are found by entry point, others are named in a recipe.

A package declares its kinds in its pyproject.toml:

    [project.entry-points."qkv.kinds"]
    mine = "my_package.kinds"

A recipe names modules that are not installed. They are looked for on Python's path and in the current folder:

    imports: [my_kinds]
"""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from qkv.core.errors import UsageError

GROUP = "qkv.kinds"
TRUSTED = "QKV_IMPORTS"
"""Environment variable: modules, with commas between them, that a model's folder may ask for."""


@cache
def load_installed() -> None:
    """Import what installed packages declare, once per process. A package that fails is skipped with a warning."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            owner = point.dist.name if point.dist else point.name
            warnings.warn(
                f"the package {owner} announces kinds for qkv, but {point.value} cannot be imported ({error}); its "
                "kinds are missing: repair or uninstall it",
                stacklevel=2,
            )


def import_modules(names: Sequence[str]) -> None:
    """Import the modules that a recipe names, and make them available to child processes too."""
    if names and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise UsageError(
                f"imports: the module {name} cannot be imported ({error}); install it, or start qkv in its folder"
            ) from error
    _trust(names)


def require_modules(names: Sequence[str]) -> None:
    """Import the modules that a model's folder names, if the user has imported or allowed them.

    The folder may come from a stranger, who must not decide what code runs.
    """
    trusted = os.environ.get(TRUSTED, "").split(",")
    for name in names:
        if name not in sys.modules and name not in trusted:
            raise UsageError(
                f"the model needs kinds from the module {name}: if you trust it, set {TRUSTED}={','.join(names)}, or "
                "import it in Python first"
            )
    import_modules(names)


def _trust(names: Sequence[str]) -> None:
    known = [name for name in os.environ.get(TRUSTED, "").split(",") if name]
    os.environ[TRUSTED] = ",".join(dict.fromkeys([*known, *names]))
