"""The differences between an output and a reference: shared words, and words that only one of them has."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

MOST_PAIRS = 250_000
"""The largest product of the texts' lengths in words: beyond it, marking takes seconds and helps nobody."""


@dataclass(frozen=True)
class Piece:
    """A span of a text; `shared` if the other text has it too."""

    text: str
    shared: bool


@dataclass(frozen=True)
class Marked:
    """Two texts, cut where they differ; the pieces of each put together are the text again, but for its spaces."""

    output: list[Piece]
    reference: list[Piece]


def mark(output: str, reference: str) -> Marked:
    """Compare words; where both texts are at most one word, letters."""
    by_letter = not any(len(text.split()) > 1 for text in (output, reference))
    first, second = (list(text) if by_letter else text.split() for text in (output, reference))
    if len(first) * len(second) > MOST_PAIRS:
        return Marked([Piece(output, True)], [Piece(reference, True)])
    shared_first, shared_second = [False] * len(first), [False] * len(second)
    for i, j, size in SequenceMatcher(a=first, b=second, autojunk=False).get_matching_blocks():
        shared_first[i : i + size] = shared_second[j : j + size] = [True] * size
    joint = "" if by_letter else " "
    return Marked(_pieces(first, shared_first, joint), _pieces(second, shared_second, joint))


def _pieces(units: Sequence[str], shared: Sequence[bool], joint: str) -> list[Piece]:
    pieces: list[Piece] = []
    for both, run in groupby(zip(units, shared, strict=True), key=lambda pair: pair[1]):
        if pieces and joint:
            pieces.append(Piece(joint, True))
        pieces.append(Piece(joint.join(unit for unit, _ in run), both))
    return pieces
