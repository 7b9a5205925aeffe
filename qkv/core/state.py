"""The state of a decoder that writes one token after another: models return it, and searches reorder it."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class StepState(Protocol):
    """All that was decoded so far, as a value: a step returns a new one and does not change the old one."""

    def reorder(self, rows: Tensor, sentences: Tensor) -> Any:
        """New row r continues old row rows[r]; new sentence i is old sentence sentences[i].

        All rows of a new sentence come from rows of the same old sentence.
        """
