"""Evaluates outputs: overall, by length, by word frequency, and individually."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qkv.core.progress import Counting, Reporter, SilentReporter
from qkv.evaluation.buckets import LengthGroup, WordGroup, length_groups, length_unit, word_groups
from qkv.evaluation.decoding import Decoding
from qkv.evaluation.files import EvaluationSet, require_measurable
from qkv.evaluation.given import require_answers
from qkv.evaluation.metrics.base import Counts, Metric, References
from qkv.evaluation.metrics.error_rates import EditRate, WholeOutputs, comparable
from qkv.evaluation.metrics.registry import METRICS
from qkv.evaluation.remarks import remarks_on, remarks_on_case, remarks_on_metrics
from qkv.evaluation.resampling import Interval, intervals

SCORED_AT_ONCE = 100


@dataclass(frozen=True)
class MetricScore:
    """A metric over the whole test set."""

    metric: Metric
    value: float
    interval: Interval
    detail: str
    signature: str


@dataclass(frozen=True)
class ScoredGroup:
    """Outputs of similar length and their scores, in the order of the metrics."""

    group: LengthGroup
    values: list[float]
    intervals: list[Interval]


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one system's outputs."""

    test: EvaluationSet
    outputs: list[str]
    scores: list[MetricScore]
    unit: str
    """What the length of a group is counted in."""
    by_length: list[ScoredGroup]
    by_frequency: list[WordGroup]
    ranked_by: Metric
    each: list[float]
    """The score of every single output, by `ranked_by`."""
    remarks: list[str]
    decoding: Decoding | None = None
    """How the outputs were found, if a model was asked for them."""

    @property
    def settings(self) -> dict[str, str]:
        """The decoding settings, by title; empty for outputs from a file."""
        return {} if self.decoding is None else {"Search": f"{self.decoding.settings} (engine {self.decoding.engine})"}

    @property
    def signatures(self) -> dict[str, str]:
        """By title of the metric."""
        return {score.metric.title: score.signature for score in self.scores}

    @property
    def faulty(self) -> list[int]:
        """Outputs that are not perfect, from the worst to the best."""
        return [place for place in self.worst_first if not self._is_perfect(place)]

    def _is_perfect(self, place: int) -> bool:
        best = 100.0 if self.ranked_by.higher_is_better else 0.0
        answers = map(comparable, self.test.references[place])
        return self.each[place] == best or comparable(self.outputs[place]) in answers

    @property
    def worst_first(self) -> list[int]:
        """Outputs from the worst to the best; equals stay in order."""
        sign = 1 if self.ranked_by.higher_is_better else -1
        return sorted(range(len(self.each)), key=lambda place: sign * self.each[place])


def evaluate_outputs(
    outputs: Sequence[str],
    test: EvaluationSet,
    metrics: Sequence[Metric],
    frequencies: Counter[str] | None = None,
    reporter: Reporter | None = None,
    decoding: Decoding | None = None,
) -> Evaluation:
    """Measure `outputs`, one for each question of `test`. `frequencies`: how often training had each target word;
    `decoding`: how the outputs were found.
    """
    require_measurable(test, metrics)
    require_answers(outputs, test.references)
    reporter = reporter or SilentReporter()
    rows = [count(metric, outputs, test.references, reporter.counting(f"Scoring {metric.title}")) for metric in metrics]
    found = intervals(metrics, rows, reporter.counting("Resampling"))
    totals = [counts.sum(axis=0) for counts in rows]
    values = [metric.from_total(total) for metric, total in zip(metrics, totals, strict=True)]
    unit, groups = groups_of(test)
    ranked_by = ranking_metric(metrics)
    return Evaluation(
        test=test,
        outputs=list(outputs),
        scores=[
            MetricScore(metric, value, interval, metric.detail(total), metric.signature(test.references))
            for metric, value, total, interval in zip(metrics, values, totals, found, strict=True)
        ],
        unit=unit,
        by_length=[scored_group(metrics, rows, group) for group in groups],
        by_frequency=[] if frequencies is None else word_groups(outputs, test.references, frequencies),
        ranked_by=ranked_by,
        each=each_score(ranked_by, metrics, rows, outputs, test.references),
        remarks=[
            *([] if decoding is None else decoding.remarks),
            *remarks_on(outputs),
            *remarks_on_case(outputs, test.references),
            *remarks_on_metrics(metrics, values, test.references),
        ],
        decoding=decoding,
    )


def count(metric: Metric, outputs: Sequence[str], references: References, progress: Counting) -> Counts:
    """The counts of all outputs, a few at a time."""
    pieces = []
    for start in range(0, len(outputs), SCORED_AT_ONCE):
        end = start + SCORED_AT_ONCE
        pieces.append(metric.counts(outputs[start:end], references[start:end]))
        progress(min(end, len(outputs)), len(outputs))
    return np.concatenate(pieces)


def groups_of(test: EvaluationSet) -> tuple[str, list[LengthGroup]]:
    """The questions by length of the source, or of the first reference where no source is known."""
    texts = test.sources or [answers[0] for answers in test.references]
    unit = length_unit(texts)
    side = "source" if test.sources else "reference"
    return f"{unit.name} in the {side}", length_groups([unit.count(text) for text in texts])


def scored_group(metrics: Sequence[Metric], rows: Sequence[Counts], group: LengthGroup) -> ScoredGroup:
    """The scores of the outputs in a group, from their rows of counts."""
    own = [counts[group.members] for counts in rows]
    values = [metric.from_total(counts.sum(axis=0)) for metric, counts in zip(metrics, own, strict=True)]
    return ScoredGroup(group, values, intervals(metrics, own))


def ranking_metric(metrics: Sequence[Metric]) -> Metric:
    """The metric that ranks single outputs: an error rate if one is measured, else chrF.

    BLEU of a single sentence says little, and exact match does not say how wrong an output is.
    """
    if not all(isinstance(metric, EditRate | WholeOutputs) for metric in metrics):
        return METRICS["chrf"]
    return next((metric for metric in metrics if isinstance(metric, EditRate)), METRICS["cer"])


def each_score(
    metric: Metric, metrics: Sequence[Metric], rows: Sequence[Counts], outputs: Sequence[str], references: References
) -> list[float]:
    """The score of every single output; its counts are taken from `rows` if it is one of `metrics`."""
    known = {other.name: counts for other, counts in zip(metrics, rows, strict=True)}
    counts = known[metric.name] if metric.name in known else metric.counts(outputs, references)
    return [metric.from_total(row) for row in counts]
