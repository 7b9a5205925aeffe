"""The base class of metrics: additive counts for each output, and a score from their sum."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from qkv.evaluation.given import require_answers

References = Sequence[Sequence[str]]
"""For each output, its references, one or more."""

Counts = NDArray[np.float64]
"""[outputs, counts]: a row for each output; the score of any selection comes from the sum of its rows."""


class Metric(ABC):
    """A named score and its direction.

    Because a score depends only on a sum of rows, parts of the test set, resampled test sets and shuffled systems are
    scored without looking at the texts again.

    Examples:
        >>> from qkv import Metric
        >>> from qkv.evaluation.metrics.registry import METRICS
        >>> bleu = METRICS["bleu"]
        >>> isinstance(bleu, Metric), bleu.higher_is_better
        (True, True)
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    higher_is_better: ClassVar[bool]
    needs_language: ClassVar[bool] = False
    """Whether it depends on the language of the references."""

    def for_language(self, language: str | None) -> Self:
        """This metric for references in the given language (None: unknown); few metrics depend on it."""
        return self

    @abstractmethod
    def counts(self, outputs: Sequence[str], references: References) -> Counts:
        """A row for each output."""

    @abstractmethod
    def from_total(self, total: NDArray[np.float64]) -> float:
        """The score of the outputs whose rows add up to `total`."""

    @abstractmethod
    def detail(self, total: NDArray[np.float64]) -> str:
        """What the score is made of, in a few words."""

    @abstractmethod
    def signature(self, references: References) -> str:
        """Every setting that the number depends on."""

    def score(self, outputs: Sequence[str], references: References) -> float:
        """The score of a whole test set; `references` has for each output a list of its references."""
        require_answers(outputs, references)
        return self.from_total(self.counts(outputs, references).sum(axis=0))

    def better(self, new: float, old: float) -> bool:
        return new > old if self.higher_is_better else new < old


def reference_counts(references: References) -> str:
    """How many references an output has, as signatures say it."""
    found = {len(answers) for answers in references}
    return str(found.pop()) if len(found) == 1 else "var"
