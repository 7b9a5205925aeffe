"""Compares systems with significance tests; the first system is the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qkv.core.errors import ArgumentError, UsageError
from qkv.core.progress import Reporter, SilentReporter
from qkv.evaluation.buckets import LengthGroup
from qkv.evaluation.decoding import Decoding
from qkv.evaluation.evaluate import ScoredGroup, count, each_score, groups_of, ranking_metric, scored_group
from qkv.evaluation.files import EvaluationSet, require_measurable
from qkv.evaluation.given import require_answers
from qkv.evaluation.metrics.base import Metric
from qkv.evaluation.remarks import remarks_on_metrics
from qkv.evaluation.resampling import Interval, PairedTest, intervals, paired_tests
from qkv.text.given import type_name

LEVEL = 0.05
"""A difference is called significant if both tests find it less likely than this by chance."""


@dataclass(frozen=True)
class SystemScore:
    """One system in one metric; the baseline has no test against itself."""

    value: float
    interval: Interval
    test: PairedTest | None


@dataclass(frozen=True)
class Comparison:
    """Several systems on one test set."""

    test: EvaluationSet
    systems: dict[str, list[str]]
    """Their outputs, by name; the first is the baseline."""
    metrics: list[Metric]
    signatures: dict[str, str]
    """By title of the metric."""
    scores: dict[str, list[SystemScore]]
    """For each system, its scores in the order of the metrics."""
    unit: str
    by_length: list[tuple[LengthGroup, dict[str, ScoredGroup]]]
    """For each group, the scores of each system."""
    ranked_by: Metric
    each: dict[str, list[float]]
    """For each system, the score of every single output by `ranked_by`."""
    decodings: dict[str, Decoding] = field(default_factory=dict)
    """How the outputs of each system were found, if it is a model."""

    @property
    def settings(self) -> dict[str, str]:
        """The decoding settings of the models, by title."""
        return {f"Search of {name}": f"{own.settings} (engine {own.engine})" for name, own in self.decodings.items()}

    @property
    def remarks(self) -> list[str]:
        """What was cut, of which system, and metrics that say nothing about such references."""
        cut = [f"{name}: {remark}" for name, own in self.decodings.items() for remark in own.remarks]
        highest = [max(own[place].value for own in self.scores.values()) for place in range(len(self.metrics))]
        return [*cut, *remarks_on_metrics(self.metrics, highest, self.test.references)]

    @property
    def largest_difference_first(self) -> list[int]:
        """Items on which the systems differ, by the size of the difference; ties stay in order."""
        spread = [max(scores) - min(scores) for scores in zip(*self.each.values(), strict=True)]
        return sorted((place for place, size in enumerate(spread) if size), key=lambda place: -spread[place])


def verdict(metric: Metric, score: SystemScore) -> str:
    """The verdict of the tests on a system, against the baseline."""
    if score.test is None:
        return "baseline"
    if not score.test.significant(LEVEL):
        return "no significant difference"
    return "better" if metric.better(score.test.difference, 0.0) else "worse"


def compare_outputs(
    systems: Mapping[str, Sequence[str]],
    test: EvaluationSet,
    metrics: Sequence[Metric],
    reporter: Reporter | None = None,
    decodings: Mapping[str, Decoding] | None = None,
) -> Comparison:
    """Measure all systems and test each against the first. `decodings`: how the outputs of some were found."""
    require_measurable(test, metrics)
    if not isinstance(systems, Mapping):
        raise ArgumentError(f"systems: must be a dict of names and lists of outputs, not {type_name(systems)}")
    if len(systems) < 2:
        raise UsageError("give two systems or more to compare")
    for outputs in systems.values():
        require_answers(outputs, test.references)
    reporter = reporter or SilentReporter()
    names = list(systems)
    rows = {
        name: [
            count(metric, outputs, test.references, reporter.counting(f"Scoring {metric.title} of {name}"))
            for metric in metrics
        ]
        for name, outputs in systems.items()
    }
    scores = {}
    for name in names:
        found = intervals(metrics, rows[name], reporter.counting(f"Resampling {name}"))
        tests: Sequence[PairedTest | None] = [None] * len(metrics)
        if name != names[0]:
            tests = paired_tests(metrics, rows[names[0]], rows[name], reporter.counting(f"Testing {name}"))
        values = [metric.from_total(counts.sum(axis=0)) for metric, counts in zip(metrics, rows[name], strict=True)]
        scores[name] = [SystemScore(*parts) for parts in zip(values, found, tests, strict=True)]
    unit, groups = groups_of(test)
    ranked_by = ranking_metric(metrics)
    return Comparison(
        test=test,
        systems={name: list(outputs) for name, outputs in systems.items()},
        metrics=list(metrics),
        signatures={metric.title: metric.signature(test.references) for metric in metrics},
        scores=scores,
        unit=unit,
        by_length=[(group, {name: scored_group(metrics, rows[name], group) for name in names}) for group in groups],
        ranked_by=ranked_by,
        each={
            name: each_score(ranked_by, metrics, rows[name], outputs, test.references)
            for name, outputs in systems.items()
        },
        decodings=dict(decodings or {}),
    )
