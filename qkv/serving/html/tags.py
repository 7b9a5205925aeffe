"""Inline tags in a translation: each element goes around the words that are aligned with its own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from qkv.translate.output import Translation

UNIT = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+(?:['’-]\w+)*|[^\w\s]")
"""A word, an ideograph, or a mark."""
SPACE = "▁"
Span = tuple[int, int]


@dataclass(frozen=True)
class Tagged:
    """A text and its inline elements: first and last character, start tag and end tag, inner ones before outer ones."""

    text: str
    elements: list[tuple[int, int, str, str]]


def place_tags(source: Tagged, output: Translation) -> str:
    """The output as HTML, with each element of the source once."""
    words = [match.span() for match in UNIT.finditer(output.text)]
    outer = _parents(source.elements)
    spans = _chosen(source, outer, words, _linked(source.text, output, words))

    def written(parent: int, first: int, last: int) -> str:
        """The characters from `first` to `last` with the elements below `parent`; those without words come first."""
        found, done = "", first
        for number in sorted((each for each, above in enumerate(outer) if above == parent), key=lambda n: spans[n]):
            start, end = spans[number]
            inner = written(number, start, end)
            tags = source.elements[number]
            found += escape(output.text[done:start], quote=False) + tags[2] + inner + tags[3]
            done = end
        return found + escape(output.text[done:last], quote=False)

    return written(-1, 0, len(output.text))


def _chosen(source: Tagged, outer: Sequence[int], words: Sequence[Span], linked: Sequence[int | None]) -> list[Span]:
    """For each element the characters of the output that it goes around: its longest run of words, inside that of the
    element around it."""
    runs: dict[int, tuple[int, int]] = {}
    for number in reversed(range(len(source.elements))):
        start, end = source.elements[number][:2]
        low, high = runs.get(outer[number], (0, len(words)))
        own = [place for place in range(low, high) if (at := linked[place]) is not None and start <= at < end]
        runs[number] = _longest_run(own) or (low, low)
    return [_characters(runs[number], words) for number in range(len(source.elements))]


def _parents(elements: Sequence[tuple[int, int, str, str]]) -> list[int]:
    """For each element the next one that holds it; -1: none. Inner ones come before outer ones."""
    found = []
    for number, (start, end, _, _) in enumerate(elements):
        holds = (
            other
            for other in range(number + 1, len(elements))
            if elements[other][0] <= start and end <= elements[other][1]
        )
        found.append(next(holds, -1))
    return found


def _longest_run(places: Sequence[int]) -> tuple[int, int] | None:
    """(first, behind the last) of the longest run of numbers that follow each other."""
    best: tuple[int, int] | None = None
    start = 0
    for place in range(1, len(places) + 1):
        if place == len(places) or places[place] != places[place - 1] + 1:
            run = places[start], places[place - 1] + 1
            if best is None or run[1] - run[0] > best[1] - best[0]:
                best = run
            start = place
    return best


def _characters(run: tuple[int, int], words: Sequence[Span]) -> Span:
    first, behind = run
    if behind > first:
        return words[first][0], words[behind - 1][1]
    place = words[first][0] if first < len(words) else (words[-1][1] if words else 0)
    return place, place


def _linked(text: str, output: Translation, words: Sequence[Span]) -> list[int | None]:
    """For each word of the output the first character of the source word that it is aligned with most."""
    units = [match.span() for match in UNIT.finditer(text)]
    weights = np.array(output.alignment or [], dtype=np.float64)
    if not units or weights.size == 0:
        return [None] * len(words)
    src = _overlaps(spans_of(output.src_tokens, text), units)
    tgt = _overlaps(spans_of(output.tokens, output.text), words)
    scores = tgt.T @ weights @ src
    return [units[int(row.argmax())][0] if row.max() > 0 else None for row in scores]


def _overlaps(tokens: Sequence[Span], words: Sequence[Span]) -> "np.ndarray":
    """[tokens, words]: whether they have a character in common."""
    found = np.zeros((len(tokens), len(words)))
    for row, (start, end) in enumerate(tokens):
        for column, (first, behind) in enumerate(words):
            found[row, column] = start < behind and first < end
    return found


def spans_of(tokens: Sequence[str], text: str) -> list[Span]:
    """Where each token stands in the text; an empty span for one that is not found."""
    found, place = [], 0
    for token in tokens:
        surface = token.replace(SPACE, " ").strip()
        at = text.find(surface, place) if surface else -1
        if at < 0:
            found.append((place, place))
            continue
        place = at + len(surface)
        found.append((at, place))
    return found
