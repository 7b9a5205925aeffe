"""Evaluations and comparisons as tables, for the terminal and the HTML report."""

from dataclasses import dataclass, field

from qkv.evaluation.compare import Comparison, verdict
from qkv.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class Table:
    """Cells as text."""

    title: str
    header: list[str]
    rows: list[list[str]]
    words: set[int] = field(default_factory=lambda: {0})
    """Columns that hold words, set flush left; the others hold numbers."""


def evaluation_tables(found: Evaluation, name: str = "") -> list[Table]:
    """Overall scores, then by length, then by rarity of words if that is known; `name` is that of the test set."""
    titles = [score.metric.title for score in found.scores]
    outputs = f"{len(found.outputs):,} outputs"
    overall = [
        [score.metric.title, f"{score.value:.2f}", f"±{score.interval.half_width:6.2f}", score.detail]
        for score in found.scores
    ]
    lengths = [
        [part.group.label, f"{len(part.group.members):,}", *(f"{value:.2f}" for value in part.values)]
        for part in found.by_length
    ]
    words = [
        [group.label, f"{group.in_references:,}", *(f"{v:.2f}" for v in (group.precision, group.recall, group.f1))]
        for group in found.by_frequency
    ]
    tables = [
        Table(f"{name}: {outputs}" if name else outputs, ["metric", "score", "95 %", "made of"], overall, {0, 3}),
        Table(f"By {found.unit}", ["length", "outputs", *titles], lengths),
    ]
    if words:
        header = ["in training", "in references", "precision", "recall", "F1"]
        tables.append(Table("Words by how often training had them", header, words))
    return tables


def comparison_tables(found: Comparison) -> list[Table]:
    """A table for each metric, then one by length for each metric."""
    tables = []
    for place, metric in enumerate(found.metrics):
        rows = []
        for name, scores in found.scores.items():
            score = scores[place]
            test = score.test
            tested = (
                ["", "", ""]
                if test is None
                else [f"{test.difference:+.2f}", f"{test.bootstrap:.4f}", f"{test.randomization:.4f}"]
            )
            value = [f"{score.value:.2f}", f"±{score.interval.half_width:6.2f}"]
            rows.append([name, *value, *tested, verdict(metric, score)])
        header = ["system", "score", "95 %", "difference", "p bootstrap", "p shuffling", ""]
        tables.append(Table(f"{metric.title}, {len(found.test):,} outputs", header, rows, {0, 6}))
    for place, metric in enumerate(found.metrics):
        rows = [
            [group.label, f"{len(group.members):,}", *(f"{own.values[place]:.2f}" for own in scores.values())]
            for group, scores in found.by_length
        ]
        tables.append(Table(f"{metric.title} by {found.unit}", ["length", "outputs", *found.systems], rows))
    return tables
