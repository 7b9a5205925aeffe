"""A run as plain data, which the page reads: curves, norms by layer, attention at each validation.

The same is typed in `web/src/data/run.ts`.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from qkv.core.errors import UsageError
from qkv.training.inside.snapshots import read_snapshots
from qkv.training.run.folder import RunFolder, read_metrics

POINTS = 400
"""Points of a curve; of a longer run, each is the mean of several updates."""
TRAINED = ("loss", "nll", "grad_norm", "lr", "tokens_per_second")
"""The numbers of an update that are shown."""

Line = dict[str, Any]


def run_record(folder: Path) -> Line:
    """All that the page shows of one run."""
    run = RunFolder(folder)
    if not run.metrics.is_file():
        raise UsageError(f"{folder}: is not a run (it has no metrics.jsonl); for a model, give a text as well")
    lines = read_metrics(run.metrics)
    updates = [line for line in lines if _is_number(line.get("update")) and _is_number(line.get("loss"))]
    validations = [line for line in lines if _is_number(line.get("validation"))]
    if not updates:
        raise UsageError(f"{folder}: has no updates yet; train it first")
    normed = [line for line in updates if isinstance(line.get("grad_norms"), dict)]
    return {
        "name": folder.resolve().name,
        "updates": updates[-1]["update"],
        "epochs": updates[-1].get("epoch", 0),
        "training": {name: _curve(updates, name) for name in TRAINED},
        "validation": {name: _scores(validations, name) for name in _score_names(validations)},
        "best": [line["validation"] for line in validations if line.get("best")],
        "gradients": _gradients(normed),
        "snapshots": [{"update": update, **taken} for update, taken in read_snapshots(run.attention).items()],
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _score_names(validations: Sequence[Line]) -> list[str]:
    """In the order of the log; the number of the update and that of cut outputs are no scores."""
    names = dict.fromkeys(key for line in validations for key, value in line.items() if isinstance(value, float))
    return list(names)


def _scores(validations: Sequence[Line], name: str) -> list[list[float]]:
    return [[line["validation"], _short(line[name])] for line in validations if _is_number(line.get(name))]


def _curve(updates: Sequence[Line], name: str) -> list[list[float]]:
    """[update, value] of a number of the log: means of so many updates that a chart can show them."""
    known = [line for line in updates if _is_number(line.get(name))]
    each = max(1, math.ceil(len(known) / POINTS))
    parts = [known[start : start + each] for start in range(0, len(known), each)]
    return [[part[-1]["update"], _short(fmean(line[name] for line in part))] for part in parts]


def _gradients(normed: Sequence[Line]) -> dict[str, list[list[float]]]:
    """[update, norm] by layer, in the order of the model."""
    layers = dict.fromkeys(layer for line in normed for layer in line["grad_norms"])
    return {
        layer: _curve([{"update": line["update"], "norm": line["grad_norms"].get(layer)} for line in normed], "norm")
        for layer in layers
    }


def _short(value: float) -> float:
    """Five digits, so that the file stays small."""
    return float(f"{value:.5g}")
