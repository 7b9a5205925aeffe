"""Curves over training: learning curves of several runs, and learning-rate schedules."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from qkv.core.errors import UsageError
from qkv.core.figures import SERIES
from qkv.training.run.folder import RunFolder, read_metrics
from qkv.training.schedules import ScheduleConfig, schedules
from qkv.visual.figures.canvas import PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 620, 360
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""The 97.5 % points of Student's t for 1, 2, ... degrees of freedom; 1.96 beyond."""

Curve = Mapping[int, float]
"""A number by update."""


def learning_figure(runs: Sequence[Path], number: str = "loss") -> PaperFigure:
    """A number of the validations, or `train_loss`, against updates.

    Runs whose names differ only in a number at the end (baseline-1, baseline-2) are one line, their mean, with a band:
    the 95 % interval of the mean by Student's t.
    """
    groups: dict[str, list[Curve]] = defaultdict(list)
    for run in runs:
        groups[group_name(run)].append(learning_curve(run, number))

    def paint(axes: "Axes") -> None:
        for place, (name, curves) in enumerate(groups.items()):
            updates = sorted(set.intersection(*(set(curve) for curve in curves)))
            middles = [mean(curve[update] for curve in curves) for update in updates]
            colour = SERIES[place % len(SERIES)]
            label = name if len(curves) == 1 else f"{name} ({len(curves)} runs)"
            axes.plot(
                updates, middles, color=colour, label=label, marker="o" if len(updates) < 40 else "", markersize=3
            )
            if len(curves) > 1:
                halves = [half_width([curve[update] for curve in curves]) for update in updates]
                low, high = ([m + sign * h for m, h in zip(middles, halves, strict=True)] for sign in (-1, 1))
                axes.fill_between(updates, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.set(xlabel="update", ylabel=number.replace("_", " "))
        axes.grid()
        axes.legend(loc="best", labelcolor="linecolor")

    return PaperFigure(paint, *SIZE, f"Learning curves: {number}")


def group_name(run: Path) -> str:
    """The name of a run without a number at its end."""
    name = run.resolve().name
    return re.sub(r"[-_.]?\d+$", "", name) or name


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean of a few values."""
    free = len(values) - 1
    return (STUDENT[free - 1] if free <= len(STUDENT) else 1.96) * stdev(values) / math.sqrt(len(values))


def learning_curve(run: Path, number: str) -> Curve:
    """A number by update, as the run has logged it."""
    lines = read_metrics(RunFolder(run).metrics)
    if number == "train_loss":
        return {line["update"]: line["loss"] for line in lines if "update" in line and "loss" in line}
    validations = [line for line in lines if "validation" in line]
    known = sorted({key for line in validations for key, value in line.items() if isinstance(value, float)})
    if number not in known:
        raise UsageError(f"{run}: has no {number} at its validations; give one of {', '.join([*known, 'train_loss'])}")
    return {line["validation"]: line[number] for line in validations if number in line}


def schedule_figure(chosen: Mapping[str, ScheduleConfig], updates: int, d_model: int) -> PaperFigure:
    """The learning rate of each schedule against updates, in a run of so many."""

    def paint(axes: "Axes") -> None:
        for place, (name, schedule) in enumerate(chosen.items()):
            warmed = min(schedule.warmup, updates) / updates
            every = range(1, updates + 1, max(1, updates // 400))
            rates = [
                schedule.rate(update, (update - 1) / updates, d_model, min((update - 1) / updates, warmed))
                for update in every
            ]
            axes.plot(list(every), rates, color=SERIES[place % len(SERIES)], label=name)
        axes.set(xlabel="update", ylabel="learning rate")
        axes.grid()
        axes.legend(loc="best", labelcolor="linecolor")

    return PaperFigure(paint, *SIZE, "Learning-rate schedules")


def every_schedule(updates: int) -> dict[str, ScheduleConfig]:
    """Each kind with its defaults and a warm-up of a tenth of the run."""
    return {kind: schedules[kind](warmup=max(1, updates // 10)) for kind in schedules.names()}
