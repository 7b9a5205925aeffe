"""What the report plots: each metric over all outputs and by length, and F1 of words by their training frequency."""

from qkv.evaluation.compare import Comparison
from qkv.evaluation.evaluate import Evaluation
from qkv.evaluation.metrics.base import Metric
from qkv.evaluation.report.charts import BarGroup, Measured, Plot

ALL = "all"


def evaluation_plots(found: Evaluation) -> list[Plot]:
    """A plot for each metric, and one of words if their frequencies are known."""
    plots = []
    for place, score in enumerate(found.scores):
        groups = [BarGroup(ALL, len(found.outputs), [Measured(score.value, score.interval)], is_whole=True)]
        for part in found.by_length:
            measured = [Measured(part.values[place], part.intervals[place])]
            groups.append(BarGroup(part.group.label, len(part.group.members), measured))
        plots.append(_by_length(score.metric, found.unit, [score.metric.title], groups))
    if found.by_frequency:
        words = [
            BarGroup(group.label, group.in_references, [Measured(group.f1, group.f1_interval)])
            for group in found.by_frequency
        ]
        title = "F1 of words by frequency"
        plots.append(Plot(title, "times in the training data", "F1 (higher is better)", ["F1"], words))
    return plots


def comparison_plots(found: Comparison) -> list[Plot]:
    """A plot for each metric, with a series for each system."""
    plots = []
    for place, metric in enumerate(found.metrics):
        scores = [own[place] for own in found.scores.values()]
        groups = [
            BarGroup(ALL, len(found.test), [Measured(score.value, score.interval) for score in scores], is_whole=True)
        ]
        for group, systems in found.by_length:
            measured = [Measured(own.values[place], own.intervals[place]) for own in systems.values()]
            groups.append(BarGroup(group.label, len(group.members), measured))
        plots.append(_by_length(metric, found.unit, list(found.systems), groups))
    return plots


def _by_length(metric: Metric, unit: str, series: list[str], groups: list[BarGroup]) -> Plot:
    better = "higher" if metric.higher_is_better else "lower"
    return Plot(f"{metric.title} by length", f"length: {unit}", f"{metric.title} ({better} is better)", series, groups)
