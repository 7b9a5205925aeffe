"""Scores of a list of outputs, in one call."""

from collections.abc import Sequence

from qkv.evaluation.given import require_answers
from qkv.evaluation.metrics.default import default_metrics
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.text.given import require_list


def score(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]],
    metrics: Sequence[str] | None = None,
    language: str | None = None,
) -> dict[str, float]:
    """Compare outputs with the references.

    Args:
        hypotheses: the outputs, one text each.
        references: for each output its reference, or a list of several.
        metrics: names such as `bleu`, `chrf`, `ter`, `wer`, `cer` and `exact`; by default those that fit the
            references (BLEU, chrF and TER for sentences, for example).
        language: of the references (`de`, say), for metrics that tokenise by its rules.

    Returns:
        The score of the whole list by each metric.

    Examples:
        >>> from qkv import score
        >>> score(["the cat sat", "a dog"], ["the cat sat", ["a dog", "one dog"]], metrics=["exact", "wer"])
        {'exact': 100.0, 'wer': 0.0}
        >>> round(score(["a big dog barks"], ["the big dog barks"], metrics=["chrf"])["chrf"], 1)
        76.0
    """
    require_list("references", references, "references")
    answers = [[own] if isinstance(own, str) else own for own in references]
    require_answers(hypotheses, answers)
    names = default_metrics(answers, language=language).names if metrics is None else metrics
    return {metric.name: metric.score(hypotheses, answers) for metric in choose_metrics(names, language)}
