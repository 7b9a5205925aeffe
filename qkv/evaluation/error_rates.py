"""Error rates where an output has one or several right answers: of whole outputs, and of their tokens."""

import unicodedata
from collections.abc import Sequence
from importlib.metadata import version
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qkv.evaluation.metric import Counts, Metric, References, reference_counts


def comparable(text: str) -> str:
    """What is compared: however a letter was typed (NFC), and whatever space is around the tokens."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Levenshtein: the fewest insertions, deletions and substitutions that make `a` into `b`."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


class WholeOutputs(Metric):
    """What share of the outputs equals one of their right answers, or none of them."""

    counts_right: ClassVar[bool]

    def counts(self, outputs: Sequence[str], references: References) -> Counts:
        rows = [
            (self.counts_right == (comparable(output) in map(comparable, answers)), 1)
            for output, answers in zip(outputs, references, strict=True)
        ]
        return np.asarray(rows, dtype=np.float64)

    def from_total(self, total: NDArray[np.float64]) -> float:
        return float(100.0 * total[0] / total[1])

    def detail(self, total: NDArray[np.float64]) -> str:
        return f"{total[0]:,.0f} of {total[1]:,.0f}"

    def signature(self, references: References) -> str:
        return f"nrefs:{reference_counts(references)}|case:mixed|norm:nfc,spaces|ref:any|version:qkv-{version('qkv')}"


class Accuracy(WholeOutputs):
    """Outputs that are right."""

    name: ClassVar[str] = "accuracy"
    title: ClassVar[str] = "exact match"
    about: ClassVar[str] = "outputs that equal one of their right answers, %"
    higher_is_better: ClassVar[bool] = True
    counts_right: ClassVar[bool] = True


class SequenceErrors(WholeOutputs):
    """Outputs that are wrong: the WER of papers on letter-to-sound, where an output is a word."""

    name: ClassVar[str] = "wer"
    title: ClassVar[str] = "WER"
    about: ClassVar[str] = "outputs that equal none of their right answers, %"
    higher_is_better: ClassVar[bool] = False
    counts_right: ClassVar[bool] = False


class TokenErrors(Metric):
    """Wrong, missing and superfluous tokens: PER where tokens are phonemes, WER of speech recognition where words."""

    name: ClassVar[str] = "per"
    title: ClassVar[str] = "PER"
    about: ClassVar[str] = "edits of space-separated tokens to the closest right answer, per 100 tokens of it"
    higher_is_better: ClassVar[bool] = False

    def counts(self, outputs: Sequence[str], references: References) -> Counts:
        rows = [
            min(_edits(comparable(output).split(), comparable(answer).split()) for answer in answers)
            for output, answers in zip(outputs, references, strict=True)
        ]
        return np.asarray(rows, dtype=np.float64)

    def from_total(self, total: NDArray[np.float64]) -> float:
        return float(100.0 * total[0] / max(total[1], 1))

    def detail(self, total: NDArray[np.float64]) -> str:
        return f"edits: {total[0]:,.0f}, tokens: {total[1]:,.0f}"

    def signature(self, references: References) -> str:
        return (
            f"nrefs:{reference_counts(references)}|case:mixed|norm:nfc,spaces|tok:spaces|ref:closest|"
            f"version:qkv-{version('qkv')}"
        )


def _edits(output: list[str], answer: list[str]) -> tuple[int, int]:
    return edit_distance(output, answer), len(answer)
