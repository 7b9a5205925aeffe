"""The parts of a long text, each read once more behind the one before it, so that it knows what was said.

The output is forced to begin with the translation of the part before; what follows is the translation of the part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.splitting import Split


@dataclass(frozen=True)
class PartBehind:
    """A part with the one before it."""

    number: int
    """Which of all parts of all texts it is."""
    text: str
    """Of both."""
    prefix: list[int]
    """The translation of the one before it."""


def parts_behind(
    splits: Sequence[Split], ids: Sequence[Sequence[int]], alone: Sequence[Sequence[Hypothesis]]
) -> list[PartBehind]:
    """All parts with tokens that follow one with an output; `alone` has the hypotheses of each part by itself."""
    found = []
    for number, (split, place) in enumerate(_places(splits)):
        if place and ids[number] and alone[number - 1]:
            text = split.parts[place - 1] + split.gaps[place - 1] + split.parts[place]
            found.append(PartBehind(number, text, alone[number - 1][0].tokens))
    return found


def _places(splits: Sequence[Split]) -> Iterator[tuple[Split, int]]:
    return ((split, place) for split in splits for place in range(len(split.parts)))


def without_beginning(hypothesis: Hypothesis, part: PartBehind, ids: Sequence[int]) -> Hypothesis:
    """What follows the prefix. `ids` are those of the part itself: what it looked at before them is left out."""
    first = len(part.prefix)
    weights = hypothesis.attention
    return replace(
        hypothesis,
        tokens=hypothesis.tokens[first:],
        token_scores=hypothesis.token_scores[first:],
        attention=None if weights is None else [row[-len(ids) :] for row in weights[first:]],
    )
