"""The metrics by name. A new one is a class like these and one registration."""

import warnings
from collections.abc import Sequence
from typing import Annotated

from qkv.config import Names
from qkv.core.errors import UsageError
from qkv.evaluation.metrics.base import Metric
from qkv.evaluation.metrics.error_rates import (
    CharacterErrors,
    ExactMatch,
    PhonemeErrors,
    PronunciationErrors,
    WordErrors,
)
from qkv.evaluation.metrics.sacre import Bleu, Chrf, Ter, TokenizedBleu
from qkv.text.given import checked_texts

METRICS = Names[Metric]("metric")


def register_metric(metric: Metric, aliases: Sequence[str] = ()) -> None:
    """Make a metric known by its name, in recipes, on the command line and to `score`.

    Examples:
        >>> import numpy as np
        >>> from qkv import Metric, register_metric, score
        >>> class SameLength(Metric):
        ...     name, title, about = "same_length", "Same length", "outputs as long as a reference"
        ...     higher_is_better = True
        ...     def counts(self, outputs, references):
        ...         right = [len(output) in map(len, answers) for output, answers in zip(outputs, references)]
        ...         return np.array([[float(own), 1.0] for own in right])
        ...     def from_total(self, total):
        ...         return float(100 * total[0] / total[1])
        ...     def detail(self, total):
        ...         return f"{total[0]:.0f} of {total[1]:.0f}"
        ...     def signature(self, references):
        ...         return "characters"
        >>> register_metric(SameLength())
        >>> score(["abc", "de"], ["cba", "xyz"], metrics=["same_length"])
        {'same_length': 50.0}
    """
    METRICS.register(metric.name, metric, aliases)


register_metric(Bleu())
register_metric(Chrf())
register_metric(Ter())
register_metric(TokenizedBleu())
register_metric(WordErrors())
register_metric(CharacterErrors())
register_metric(ExactMatch(), aliases=["accuracy", "word_accuracy"])
register_metric(PronunciationErrors())
register_metric(PhonemeErrors())

REDEFINED = frozenset({WordErrors.name})
"""Names that meant another score in earlier versions: what was measured then cannot be compared with them."""

MetricName = Annotated[str, METRICS]
"""The type of a field that names a metric."""


def choose_metrics(names: Sequence[str], language: str | None = None) -> list[Metric]:
    """The metrics of these names, each once; refuses what cannot be measured before anything is decoded.

    `language` is that of the references, for metrics that go by the rules of one.
    """
    for name in checked_texts("metrics", names):
        if name not in METRICS:
            raise UsageError(f"there is no metric {name!r}; choose from {', '.join(METRICS)}")
    found = {metric.name: metric.for_language(language) for metric in map(METRICS.__getitem__, names)}
    if {WordErrors.name, PhonemeErrors.name} <= found.keys():
        warnings.warn(
            "wer is the word error rate now, which for pronunciations is the same as per; "
            "the share of words that are wrong, once called wer, is g2p_wer",
            FutureWarning,
            stacklevel=1,
        )
    return list(found.values())


def group_by_source(sources: Sequence[str], targets: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Each distinct source once, in order, with all of its references."""
    answers: dict[str, list[str]] = {}
    for source, target in zip(sources, targets, strict=True):
        answers.setdefault(source, []).append(target)
    return list(answers), list(answers.values())
