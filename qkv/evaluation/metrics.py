"""Scores of a whole test set. Every output may have several right answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

References = Sequence[Sequence[str]]
"""For each output, its right answers (one or more)."""


@dataclass(frozen=True)
class Metric:
    """A named score and its direction."""

    name: str
    about: str
    higher_is_better: bool
    score: Callable[[Sequence[str], References], float]

    def better(self, new: float, old: float) -> bool:
        return new > old if self.higher_is_better else new < old


def bleu(outputs: Sequence[str], references: References) -> float:
    """Corpus BLEU by sacreBLEU (13a, mixed case)."""
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU().corpus_score(list(outputs), _as_streams(references)).score)


def chrf(outputs: Sequence[str], references: References) -> float:
    """Corpus chrF by sacreBLEU."""
    from sacrebleu.metrics.chrf import CHRF

    return float(CHRF().corpus_score(list(outputs), _as_streams(references)).score)


def _as_streams(references: References) -> list[list[str]]:
    """sacreBLEU wants one list for each reference number, None where an output has fewer (its types hide that)."""
    most = max(len(answers) for answers in references)
    streams = [[answers[i] if i < len(answers) else None for answers in references] for i in range(most)]
    return cast(list[list[str]], streams)


def sequence_error_rate(outputs: Sequence[str], references: References) -> float:
    """Percentage of outputs that equal none of their right answers: WER of letter-to-sound papers."""
    wrong = sum(output not in answers for output, answers in zip(outputs, references, strict=True))
    return 100.0 * wrong / len(outputs)


def sequence_accuracy(outputs: Sequence[str], references: References) -> float:
    """Percentage of outputs that equal one of their right answers."""
    return 100.0 - sequence_error_rate(outputs, references)


def token_error_rate(outputs: Sequence[str], references: References) -> float:
    """Edit distance between space-separated tokens, to the closest answer, per 100 tokens of that answer: PER."""
    edits = tokens = 0
    for output, answers in zip(outputs, references, strict=True):
        hypothesis = output.split()
        distance, length = min((edit_distance(hypothesis, a.split()), len(a.split())) for a in answers)
        edits += distance
        tokens += length
    return 100.0 * edits / max(tokens, 1)


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Levenshtein: the fewest insertions, deletions and substitutions that make `a` into `b`."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


METRICS = {
    metric.name: metric
    for metric in (
        Metric("bleu", "corpus BLEU (sacreBLEU)", True, bleu),
        Metric("chrf", "corpus chrF (sacreBLEU)", True, chrf),
        Metric("accuracy", "outputs that are entirely right, %", True, sequence_accuracy),
        Metric("wer", "outputs that are not entirely right, %", False, sequence_error_rate),
        Metric("per", "token errors, %", False, token_error_rate),
    )
}


def group_by_source(sources: Sequence[str], targets: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Each distinct source once, in order, with all of its right answers."""
    answers: dict[str, list[str]] = {}
    for source, target in zip(sources, targets, strict=True):
        answers.setdefault(source, []).append(target)
    return list(answers), list(answers.values())
