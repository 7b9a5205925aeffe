"""A metric: the share of outputs that begin with the right token."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qkv import Metric, register_metric


class FirstToken(Metric):
    """An output counts as right if its first character is that of a right answer."""

    name = "first"
    title = "first character"
    about = "outputs that begin as a right answer does, in per cent"
    higher_is_better = True

    def counts(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        right = [output[:1] in {answer[:1] for answer in own} for output, own in zip(outputs, references, strict=True)]
        return np.array([[float(own), 1.0] for own in right])

    def from_total(self, total: NDArray[np.float64]) -> float:
        return float(100 * total[0] / total[1])

    def detail(self, total: NDArray[np.float64]) -> str:
        return f"{total[0]:,.0f} of {total[1]:,.0f}"

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        return "characters:1"


register_metric(FirstToken())
