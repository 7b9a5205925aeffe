"""Warnings about outputs that look wrong."""

from collections.abc import Sequence

from qkv.evaluation.metrics.base import Metric, References
from qkv.evaluation.metrics.sacre import Bleu

SUSPICIOUS = 0.2
"""The share of outputs above which a pattern is reported."""
NOTHING = 0.005
"""A score below it is shown as 0.00."""


def remarks_on(outputs: Sequence[str]) -> list[str]:
    """Warnings; empty if nothing looks wrong."""
    empty = sum(not output.strip() for output in outputs)
    alone = sum(output.endswith(" .") for output in outputs)
    pieces = sum("@@ " in output or "▁" in output for output in outputs)
    total = f"of {len(outputs):,} outputs"
    found = []
    if empty:
        found.append(f"{empty:,} {total} are empty")
    if alone > SUSPICIOUS * len(outputs):
        found.append(f"{alone:,} {total} end in a full stop that stands alone; join tokens to text before scoring")
    if pieces > SUSPICIOUS * len(outputs):
        found.append(f"{pieces:,} {total} hold marks of subwords (@@ or ▁); join the pieces to words before scoring")
    return found


def remarks_on_case(outputs: Sequence[str], references: References) -> list[str]:
    """Where a model that writes lower case is compared with references that do not."""
    capital = sum(any(letter.isupper() for letter in answers[0]) for answers in references)
    if capital <= SUSPICIOUS * len(outputs) or any(output != output.lower() for output in outputs):
        return []
    return [
        f"no output has a capital letter, but {capital:,} of {len(references):,} references have, so "
        "case-sensitive scores are too low; bleu_tok_lc (with --lang) ignores case"
    ]


def remarks_on_metrics(metrics: Sequence[Metric], scores: Sequence[float], references: References) -> list[str]:
    """Warn where a metric is not informative for such references."""
    answers = [answer for row in references for answer in row]
    one_word = sum(len(answer.split()) <= 1 for answer in answers)
    if 2 * one_word <= len(answers):
        return []
    return [
        f"{metric.title} is 0 since it counts sequences of up to four words, and {one_word:,} of {len(answers):,} "
        "references have not even two; --metrics exact,cer fits them"
        for metric, score in zip(metrics, scores, strict=True)
        if isinstance(metric, Bleu) and score < NOTHING
    ]
