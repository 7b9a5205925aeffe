"""qkv train"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from qkv.training.trainer import Trainer

WHAT = "give a recipe (qkv train recipe.yaml) or a run to resume (qkv train --resume RUN)"


class TrainCommand(TyperCommand):
    """`--resume` needs no value where a recipe says which run is meant."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        following = zip(args, [*args[1:], "--"], strict=False)
        return super().parse_args(
            ctx, ["--resume=" if word == "--resume" and after.startswith("-") else word for word, after in following]
        )


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A YAML file, or a name of qkv recipe list; with --resume an override may stand here."),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, as key.sub=value.")] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="[RUN]", help="Resume the run in this folder, or the recipe's if none is given."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Short for training.device=...: auto, cpu, cuda, cuda:N, mps or xpu.")
    ] = None,
) -> None:
    """Train a recipe, or resume a run."""
    chosen = [] if device is None else [f"training.device={device}"]
    asked = _asked([word for word in (recipe, *(overrides or []), *chosen) if word], resume)
    asked.refuse_early()
    result = asked.trainer().train()
    if not result.is_main:
        return
    if not result.finished:
        typer.echo(f"stopped after update {result.updates}; resume with: qkv train --resume {result.run}", err=True)
        raise typer.Exit(result.exit_code)
    typer.echo(f"finished after update {result.updates}; the best model is in {result.run / 'best'}", err=True)


@dataclass(frozen=True)
class _Asked:
    """What to train: a recipe, or the run in a folder, or the run of a recipe that is there already."""

    recipe: str | None
    run: str | None
    changes: list[str]
    resume: bool

    def refuse_early(self) -> None:
        """What can be refused before the libraries that train are imported, which takes seconds."""
        import os

        from qkv.config.yaml import read_yaml
        from qkv.core.errors import UsageError
        from qkv.training.run.folder import RunFolder, require_free

        path = None if self.recipe is None else Path(self.recipe)
        if path is not None and path.is_dir():
            # Any other folder may have the name of one of qkv's own recipes; `load_recipe` knows them.
            run = RunFolder(path)
            if run.config.is_file() and run.checkpoints.is_dir():
                raise UsageError(f"{path}: is a run, not a recipe; resume it with: qkv train --resume {path}")
        elif path is not None and path.exists():
            read_yaml(path)
        # Of the processes of torchrun only the first one holds the lock, perhaps already.
        if self.run is not None and "TORCHELASTIC_RUN_ID" not in os.environ:
            require_free(Path(self.run))

    def trainer(self) -> "Trainer":
        from qkv.recipes import load_recipe
        from qkv.training.trainer import Trainer

        if self.recipe is None:
            assert self.run is not None
            return Trainer.resume(self.run, self.changes)
        recipe = load_recipe(self.recipe, self.changes)
        if self.run is not None:
            recipe = recipe.model_copy(update={"run": Path(self.run)})
        return Trainer.resume(recipe) if self.resume else Trainer(recipe)


def _asked(words: list[str], resume: str | None) -> _Asked:
    """With --resume a run's folder, a recipe and overrides are told apart by what they are, in any order."""
    from qkv.core.errors import UsageError

    if resume is None:
        if not words:
            raise UsageError(WHAT)
        return _Asked(words[0], None, words[1:], False)
    changes = [word for word in (*words, resume) if "=" in word and not Path(word).exists()]
    folders = [word for word in words if Path(word).is_dir()]
    recipes = [word for word in words if word not in changes + folders]
    if resume and resume not in changes:
        (recipes if resume.endswith((".yaml", ".yml")) or Path(resume).is_file() else folders).append(resume)
    if len(recipes) > 1 or len(folders) > 1 or not recipes + folders:
        raise UsageError(
            "give one run to resume (qkv train --resume RUN) or its recipe (qkv train recipe.yaml --resume)"
        )
    return _Asked(next(iter(recipes), None), next(iter(folders), None), changes, True)
