"""qkv train"""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A YAML file, or a name of qkv recipe list; with --resume an override may stand here."),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, as key.sub=value.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
) -> None:
    """Train a recipe, or go on with a run that was stopped."""
    _refuse_early(recipe, resume)
    from qkv.errors import UsageError
    from qkv.recipes import load_recipe
    from qkv.training.trainer import Trainer

    changes = list(overrides or [])
    if resume is not None:
        trainer = Trainer.resume(resume, [recipe, *changes] if recipe else changes)
    elif recipe is not None:
        trainer = Trainer(load_recipe(recipe, changes))
    else:
        raise UsageError("give a recipe (qkv train recipe.yaml) or a run to go on with (qkv train --resume RUN)")
    result = trainer.train()
    if not result.leads:
        return
    if not result.finished:
        typer.echo(f"stopped after update {result.updates}; go on with: qkv train --resume {result.run}", err=True)
        raise typer.Exit(result.exit_code)
    typer.echo(f"finished after update {result.updates}; the best model is in {result.run / 'best'}", err=True)


def _refuse_early(recipe: str | None, resume: Path | None) -> None:
    """What can be refused before the libraries that train are imported, which takes seconds."""
    import os

    from qkv.config.yaml import read_yaml
    from qkv.training.lock import require_free

    if resume is not None:
        # Of the processes of torchrun only the first one holds the lock, perhaps already.
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            require_free(resume)
    elif recipe is not None and Path(recipe).exists():
        read_yaml(Path(recipe))
