"""One model from several checkpoints: the mean of their weights."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from qkv.config import load_config
from qkv.core.errors import UsageError
from qkv.core.files import verify_folder
from qkv.core.outputs import refuse_kept
from qkv.models.saved.folder import CONFIG, SavedConfig, SavedModel, save_model
from qkv.models.saved.weights import load_weights
from qkv.training.recipe import SavedRecipe
from qkv.training.run.checkpoint import best_checkpoints, checkpoint_weights, list_checkpoints
from qkv.training.run.folder import RunFolder


def average_run(path: Path, out: Path, last: int | None = None, best: int | None = None) -> list[Path]:
    """Write the average of the `last` newest or `best` best checkpoints to `out`; returns those used."""
    run = RunFolder(path)
    if (last is None) == (best is None):
        raise UsageError("say which checkpoints: --last N or --best N")
    if out.exists():
        raise UsageError(f"{out}: exists already; choose another folder for the average")
    refuse_kept("--out", out)
    if not run.config.is_file():
        raise UsageError(
            f"{path}: is not the folder of a run, which has a config.yaml and checkpoints/; "
            "give one that qkv train wrote"
        )
    recipe = load_config(SavedRecipe, run.config)
    if recipe.optimizer.averages:
        there = f"use {run.best}" if run.best.exists() else "resume the run: it is saved as best/ when it is validated"
        raise UsageError(f"{path}: the optimizer {recipe.optimizer.kind} averages already; {there}")
    folders = list_checkpoints(run.checkpoints)
    chosen = folders[-last:] if last else best_checkpoints(folders, recipe.validation)[:best]
    wanted = last or best
    if best and folders and not chosen:
        raise UsageError(f"{path}: its checkpoints have no scores: the run was not validated; use --last {best}")
    if len(chosen) != wanted:
        raise UsageError(
            f"{path}: {len(chosen)} such checkpoints are there, not {wanted}; raise training.keep_last or "
            "training.keep_best for the next run"
        )
    tokenizers = recipe.model.tokenizers(recipe.text.load(run.tokenizer))
    model = recipe.model.build(tokenizers)
    load_weights(model, average_weights(chosen), path)
    about = {"averaged": [folder.name for folder in chosen]}
    config = _best(run) or SavedConfig(imports=recipe.imports, model=recipe.model, text=recipe.text)
    save_model(out, SavedModel(model, tokenizers, config), about)
    return chosen


def _best(run: RunFolder) -> SavedConfig | None:
    """The metadata of the run's best model, if there is one, without the search that was tuned for its weights."""
    path = run.best / CONFIG
    return load_config(SavedConfig, path).model_copy(update={"search": None}) if path.exists() else None


def average_weights(checkpoints: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of each parameter, summed in float64; every checkpoint is checked against its manifest first."""
    totals: dict[str, Tensor] = {}
    for folder in checkpoints:
        verify_folder(folder)
        for name, tensor in checkpoint_weights(folder).items():
            totals[name] = totals.get(name, torch.zeros((), dtype=torch.float64)) + tensor.double()
    return {name: (total / len(checkpoints)).float() for name, total in totals.items()}
