"""Which checkpoints stay: the newest, and those with the best validations."""

import math
import shutil
from pathlib import Path

from qkv.core.errors import CorruptFolder
from qkv.core.temporary import unique_name
from qkv.evaluation.metrics.registry import METRICS, REDEFINED
from qkv.training.recipe import TrainingConfig, ValidationConfig
from qkv.training.run.checkpoint import checkpoint_name, list_checkpoints, read_state
from qkv.training.run.state import TrainState
from qkv.training.validation import higher_is_better


def rotate(parent: Path, training: TrainingConfig, validation: ValidationConfig, best_update: int | None) -> None:
    """Remove checkpoints that are neither among the newest nor among the best.

    The checkpoint of `best_update`, from which best/ was saved, ranks first whatever metric chose it.
    """
    folders = list_checkpoints(parent)
    best = [folder for folder in folders if best_update is not None and folder.name == checkpoint_name(best_update)]
    best += [folder for folder in best_checkpoints(folders, validation) if folder not in best]
    keep = {*folders[-training.keep_last :], *best[: training.keep_best]}
    for folder in folders:
        if folder not in keep:
            # Renamed first: a removal that is interrupted never leaves something that looks like a checkpoint.
            doomed = unique_name(folder)
            folder.rename(doomed)
            shutil.rmtree(doomed)


def best_checkpoints(folders: list[Path], validation: ValidationConfig) -> list[Path]:
    """Those that were validated as `validation` does it, best first; among equals the older one."""
    scores = {}
    for folder in folders:
        try:
            score = _score(read_state(folder), validation)
        except CorruptFolder:
            # A damaged checkpoint is not among the best; resuming reports it.
            continue
        if score is not None and not math.isnan(score):
            scores[folder] = score
    sign = -1 if higher_is_better(validation.best) else 1
    return sorted(scores, key=lambda folder: sign * scores[folder])


def _score(state: TrainState, validation: ValidationConfig) -> float | None:
    """The score that `validation` would give; None if these weights were not validated, or differently.

    Every score that was measured is in the state, not only the one that decided then.
    """
    if state.validated.updates != state.progress.updates:
        return None
    if state.scored_by is None:
        # An earlier version: how it decoded is not known, but what its scores mean is.
        comparable = validation.best not in REDEFINED
    else:
        comparable = {**state.scored_by, "best": validation.best} == validation.scored_by()
    if validation.best != "loss" and not comparable:
        return None
    return {METRICS.current(name): score for name, score in state.last_scores.items()}.get(validation.best)
