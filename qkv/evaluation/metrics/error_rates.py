"""Error rates where an output has one or several references: of whole outputs, words, phonemes and characters."""

import unicodedata
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from importlib.metadata import version
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qkv.evaluation.metrics.base import Counts, Metric, References, reference_counts


def comparable(text: str) -> str:
    """The text that is compared: in composed form (NFC), with single spaces between words."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Levenshtein: the fewest insertions, deletions and substitutions that make `a` into `b`."""
    from rapidfuzz.distance import Levenshtein

    # rapidfuzz compares hashes: numbers are their own, so that no two words are ever taken for one.
    numbers: dict[Hashable, int] = {}
    first, second = ([numbers.setdefault(unit, len(numbers)) for unit in units] for units in (a, b))
    return Levenshtein.distance(first, second)


class WholeOutputs(Metric):
    """What share of the outputs equals one of their references, or none of them."""

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


class ExactMatch(WholeOutputs):
    """Outputs that are right."""

    name: ClassVar[str] = "exact"
    title: ClassVar[str] = "exact match"
    about: ClassVar[str] = "outputs that equal one of their references, %"
    higher_is_better: ClassVar[bool] = True
    counts_right: ClassVar[bool] = True


class PronunciationErrors(WholeOutputs):
    """Outputs that are wrong: the WER of papers on grapheme-to-phoneme conversion, where one output is one word."""

    name: ClassVar[str] = "g2p_wer"
    title: ClassVar[str] = "g2p WER"
    about: ClassVar[str] = "words whose output equals none of their pronunciations, %; called WER in papers on g2p"
    higher_is_better: ClassVar[bool] = False
    counts_right: ClassVar[bool] = False


class EditRate(Metric):
    """Edits that lead from the outputs to their closest references, per 100 units of these answers."""

    unit: ClassVar[str]
    higher_is_better: ClassVar[bool] = False

    @abstractmethod
    def units(self, text: str) -> Sequence[str]:
        """What is inserted, deleted and substituted."""

    def counts(self, outputs: Sequence[str], references: References) -> Counts:
        rows = []
        for output, answers in zip(outputs, references, strict=True):
            given = self.units(comparable(output))
            wanted = [self.units(comparable(answer)) for answer in answers]
            rows.append(min((edit_distance(given, units), len(units)) for units in wanted))
        return np.asarray(rows, dtype=np.float64)

    def from_total(self, total: NDArray[np.float64]) -> float:
        return float(100.0 * total[0] / max(total[1], 1))

    def detail(self, total: NDArray[np.float64]) -> str:
        return f"edits: {total[0]:,.0f}, {self.unit}: {total[1]:,.0f}"

    def signature(self, references: References) -> str:
        return (
            f"nrefs:{reference_counts(references)}|case:mixed|norm:nfc,spaces|unit:{self.unit}|ref:closest|"
            f"version:qkv-{version('qkv')}"
        )


class WordErrors(EditRate):
    """The word error rate of speech recognition: edits of what stands between spaces."""

    name: ClassVar[str] = "wer"
    title: ClassVar[str] = "WER"
    about: ClassVar[str] = "word error rate: edits of words to the closest reference, per 100 of its words"
    unit: ClassVar[str] = "words"

    def units(self, text: str) -> Sequence[str]:
        return text.split()


class PhonemeErrors(WordErrors):
    """The phoneme error rate; phonemes stand between spaces."""

    name: ClassVar[str] = "per"
    title: ClassVar[str] = "PER"
    about: ClassVar[str] = "phoneme error rate: edits of space-separated phonemes, per 100 of the closest pronunciation"
    unit: ClassVar[str] = "phonemes"


class CharacterErrors(EditRate):
    """The character error rate; a space is a character."""

    name: ClassVar[str] = "cer"
    title: ClassVar[str] = "CER"
    about: ClassVar[str] = "character error rate: edits of characters, per 100 of the closest reference"
    unit: ClassVar[str] = "characters"

    def units(self, text: str) -> Sequence[str]:
        return text
