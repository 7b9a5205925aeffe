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


def register(metric: Metric, aliases: Sequence[str] = ()) -> None:
    """Make a metric known by its name, in recipes and on the command line."""
    METRICS.register(metric.name, metric, aliases)


register(Bleu())
register(Chrf())
register(Ter())
register(TokenizedBleu())
register(WordErrors())
register(CharacterErrors())
register(ExactMatch(), aliases=["accuracy", "word_accuracy"])
register(PronunciationErrors())
register(PhonemeErrors())

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
    """Each distinct source once, in order, with all of its right answers."""
    answers: dict[str, list[str]] = {}
    for source, target in zip(sources, targets, strict=True):
        answers.setdefault(source, []).append(target)
    return list(answers), list(answers.values())
