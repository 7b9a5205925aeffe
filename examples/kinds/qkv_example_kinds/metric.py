"""A metric: the share of outputs whose first character is that of a reference."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qkv import Metric, register_metric


class FirstCharacter(Metric):
    """An output counts as correct if its first character is that of one of its references."""

    name = "first"
    title = "first character"
    about = "outputs whose first character is that of a reference, in per cent"
    higher_is_better = True

    def counts(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        pairs = zip(outputs, references, strict=True)
        correct = [output[:1] in {reference[:1] for reference in own} for output, own in pairs]
        return np.array([[float(one), 1.0] for one in correct])

    def from_total(self, total: NDArray[np.float64]) -> float:
        return float(100 * total[0] / total[1])

    def detail(self, total: NDArray[np.float64]) -> str:
        return f"{total[0]:,.0f} of {total[1]:,.0f}"

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        return "characters:1"


register_metric(FirstCharacter())
