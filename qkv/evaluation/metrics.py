"""The metrics by name, and which of them a task wants."""

from collections.abc import Sequence
from typing import Literal, get_args

from qkv.errors import UsageError
from qkv.evaluation.error_rates import Accuracy, SequenceErrors, TokenErrors
from qkv.evaluation.metric import Metric
from qkv.evaluation.sacre import Bleu, Chrf, Ter, TokenizedBleu

MetricName = Literal["bleu", "chrf", "ter", "bleu_tok_lc", "accuracy", "wer", "per"]

METRICS: dict[str, Metric] = {m.name: m for m in (Bleu(), Chrf(), Ter(), Accuracy(), SequenceErrors(), TokenErrors())}
"""Those that look at nothing but the texts."""

BY_LANGUAGE = {TokenizedBleu.name: TokenizedBleu}
"""Those that go by the rules of a language."""

HIGHER_IS_BETTER = {
    *(name for name, metric in METRICS.items() if metric.higher_is_better),
    *(name for name, kind in BY_LANGUAGE.items() if kind.higher_is_better),
}


def choose_metrics(names: Sequence[str], language: str | None = None) -> list[Metric]:
    """The metrics of these names, each once; refuses what cannot be measured before anything is decoded."""
    return [_metric(name, language) for name in dict.fromkeys(names)]


def _metric(name: str, language: str | None) -> Metric:
    if name in METRICS:
        return METRICS[name]
    if name not in BY_LANGUAGE:
        raise UsageError(f"there is no metric {name!r}; choose from {', '.join(get_args(MetricName))}")
    if language is None:
        raise UsageError(f"{name} goes by the rules of a language: name that of the references, as in --lang de")
    return BY_LANGUAGE[name](language)


def group_by_source(sources: Sequence[str], targets: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Each distinct source once, in order, with all of its right answers."""
    answers: dict[str, list[str]] = {}
    for source, target in zip(sources, targets, strict=True):
        answers.setdefault(source, []).append(target)
    return list(answers), list(answers.values())
