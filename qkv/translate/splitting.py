"""Splits a text that is too long for a model: at sentences, else clauses, else words, else characters."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from qkv.search.hypothesis import Copied, Hypothesis
from qkv.text import Tokenizer
from qkv.translate.output import Translation

Level = Literal["sentence", "clause", "word", "character"]
LEVELS: tuple[Level, ...] = ("sentence", "clause", "word", "character")
CLOSING = "\"'”’»)\\]"
MARKS = {
    "sentence": re.compile(rf"(?P<mark>[.!?…]+[{CLOSING}]*)\s+|(?P<wide>[。！？]+[」』”）]*)\s*|\s*\n\s*"),
    "clause": re.compile(rf"(?P<mark>[,;:–—]+[{CLOSING}]*)\s+|(?P<wide>[，；：、]+)\s*"),
    "word": re.compile(r"(?P<mark>)\s+"),
}
NO_END = re.compile(r"(?:^|[\s(])(?:\w|\d{1,2}|Mr|Mrs|Ms|Dr|Prof|St|Nr|No|bzw|ca|vs|etc|e\.g|i\.e)\.$")
"""A full stop that ends no sentence: initials, ordinals, common abbreviations."""
BYTES = 4
"""The most tokens that a tokenizer makes of one character."""


class TextUnit(NamedTuple):
    """A span of text that stays together, and the white space after it."""

    text: str
    gap: str


@dataclass(frozen=True)
class SplitText:
    """The parts of a text; with one part it is whole."""

    parts: list[str]
    gaps: list[str] = field(default_factory=list)
    """The white space between each part and the next."""
    at: Level | None = None
    """Where it was split; if at several kinds of places, the smallest."""


@dataclass(frozen=True)
class Known:
    """Lengths of the sources that a model was trained on, in tokens with END."""

    longest: int | None = None
    median: int | None = None


class Splitter:
    """Splits texts that have more than `longest` tokens, END included, or more than the longest that the model knows.

    Each sentence is a part, and short ones are joined up to a length that the model knows well: a model that was
    trained on sentences drops some when it is given several. A sentence is broken up only if it has more than
    `longest` tokens, into pieces that the model knows.
    """

    def __init__(self, tokenizer: Tokenizer, longest: int | None, known: Known | None = None) -> None:
        known = known or Known()
        self.tokenizer = tokenizer
        self.longest = sys.maxsize if longest is None else longest
        self.piece = min(self.longest, known.longest or sys.maxsize)
        self.together = min(self.longest, known.median or 0)
        self.space = len(tokenizer.encode("a a")) - 2 * len(tokenizer.encode("a"))
        """Tokens of a space between two words: those of characters have one."""

    def fits(self, tokens: int) -> bool:
        """Whether a text of this many tokens, END included, needs no splitting."""
        return tokens <= self.piece

    def split(self, text: str) -> SplitText:
        sentences = _cut(TextUnit(text, ""), "sentence")
        parts: list[TextUnit] = []
        at: Level = "sentence"
        whole: list[TextUnit] = []
        for sentence, tokens in zip(sentences, self._count(sentences), strict=True):
            if tokens <= self.longest:
                whole.append(sentence)
                continue
            pieces, smallest = self._pieces([sentence], 1)
            parts += [*self._packed(whole, self.together), *self._packed(pieces, self.piece)]
            at, whole = max(at, smallest, key=LEVELS.index), []
        parts += self._packed(whole, self.together)
        if len(parts) == 1:
            return SplitText([text])
        return SplitText([part.text for part in parts], [part.gap for part in parts[:-1]], at)

    def _pieces(self, given: Sequence[TextUnit], level: int) -> tuple[list[TextUnit], Level]:
        """The pieces of a sentence, each small enough, and the finest level at which it was split."""
        found: list[TextUnit] = []
        smallest = level
        units = [piece for unit in given for piece in self._smaller(unit, LEVELS[level])]
        for unit, tokens in zip(units, self._count(units), strict=True):
            if tokens <= self.piece or level + 1 == len(LEVELS):
                found.append(unit)
            else:
                pieces, at = self._pieces([unit], level + 1)
                found += pieces
                smallest = max(smallest, LEVELS.index(at))
        return found, LEVELS[smallest]

    def _smaller(self, unit: TextUnit, level: Level) -> list[TextUnit]:
        if level != "character":
            return _cut(unit, level)
        size = max(1, (self.piece - 1) // BYTES)
        slices = [unit.text[start : start + size] for start in range(0, len(unit.text), size)]
        return [*(TextUnit(text, "") for text in slices[:-1]), TextUnit(slices[-1], unit.gap)]

    def _packed(self, units: Sequence[TextUnit], limit: int) -> list[TextUnit]:
        """Join neighbouring units up to `limit` tokens; a longer unit stays alone."""
        groups: list[list[TextUnit]] = []
        filled = 0
        for unit, tokens in zip(units, self._count(units), strict=True):
            if not groups or filled + tokens > limit:
                groups.append([])
                filled = 0
            groups[-1].append(unit)
            filled += tokens - 1 + (self.space if unit.gap else 0)
        return [part for group in groups for part in self._checked(group)]

    def _checked(self, group: list[TextUnit]) -> list[TextUnit]:
        """The group as one unit, or its halves if the joined text has too many tokens."""
        whole = TextUnit("".join(unit.text + unit.gap for unit in group[:-1]) + group[-1].text, group[-1].gap)
        if len(group) == 1 or self._count([whole])[0] <= self.longest:
            return [whole]
        middle = len(group) // 2
        return [*self._checked(group[:middle]), *self._checked(group[middle:])]

    def _count(self, units: Sequence[TextUnit]) -> list[int]:
        """Tokens of each, END included."""
        return [len(ids) + 1 for ids in self.tokenizer.encode_batch([unit.text for unit in units])]


def _cut(unit: TextUnit, level: Level) -> list[TextUnit]:
    """At every mark of a level."""
    found, start = [], 0
    for match in MARKS[level].finditer(unit.text):
        end = max((match.end(name) for name in match.re.groupindex if match[name] is not None), default=match.start())
        if start < end and match.end() < len(unit.text) and not _goes_on(unit.text, start, end, match.end(), level):
            found.append(TextUnit(unit.text[start:end], unit.text[end : match.end()]))
            start = match.end()
    return [*found, TextUnit(unit.text[start:], unit.gap)]


def _goes_on(text: str, start: int, end: int, after: int, level: Level) -> bool:
    """Whether what looks like the end of a sentence is not one."""
    if level != "sentence" or "\n" in text[end:after]:
        return False
    return text[after].islower() or bool(NO_END.search(text, start, end))


@dataclass(frozen=True)
class PartBehind:
    """A part together with the preceding one."""

    number: int
    """Which of all parts of all texts it is."""
    text: str
    """Of both."""
    prefix: list[int]
    """The translation of the one before it."""


def parts_behind(
    splits: Sequence[SplitText], ids: Sequence[Sequence[int]], alone: Sequence[Sequence[Hypothesis]]
) -> list[PartBehind]:
    """All parts with tokens that follow one with an output; `alone` has the hypotheses of each part by itself."""
    found = []
    for number, (split, place) in enumerate(_places(splits)):
        if place and ids[number] and alone[number - 1]:
            text = split.parts[place - 1] + split.gaps[place - 1] + split.parts[place]
            found.append(PartBehind(number, text, alone[number - 1][0].tokens))
    return found


def _places(splits: Sequence[SplitText]) -> Iterator[tuple[SplitText, int]]:
    return ((split, place) for split in splits for place in range(len(split.parts)))


def without_beginning(hypothesis: Hypothesis, part: PartBehind, ids: Sequence[int]) -> Hypothesis:
    """What follows the prefix. `ids` are those of the part itself: attention to what precedes them is dropped."""
    first = len(part.prefix)
    weights = hypothesis.attention
    return replace(
        hypothesis,
        tokens=hypothesis.tokens[first:],
        token_scores=hypothesis.token_scores[first:],
        attention=None if weights is None else [row[-len(ids) :] for row in weights[first:]],
    )


def joined(each: Sequence[Translation], split: SplitText) -> Translation:
    """Join the translations of the parts, with the white space of the source between them.

    The n-th best outputs of the parts belong together; a part with fewer outputs repeats its last.
    """
    if len(each) == 1:
        return each[0]
    ranks = 1 + max(len(one.alternatives) for one in each)
    ranked = [[one, *one.alternatives] for one in each]
    whole = [_joined([own[min(rank, len(own) - 1)] for own in ranked], split) for rank in range(ranks)]
    return replace(whole[0], alternatives=whole[1:])


def _joined(each: Sequence[Translation], split: SplitText) -> Translation:
    gaps = [*split.gaps, ""]
    return Translation(
        text="".join(one.text + gap for one, gap in zip(each, gaps, strict=True)),
        score=sum(one.score for one in each),
        tokens=[token for one in each for token in one.tokens],
        token_scores=[score for one in each for score in one.token_scores],
        src_tokens=[token for one in each for token in one.src_tokens],
        unknown=[piece for one in each for piece in one.unknown],
        src_cut=any(one.src_cut for one in each),
        out_cut=any(one.out_cut for one in each),
        alignment=_alignment(each),
        copied=_copied(each),
        likely=None if any(one.likely is None for one in each) else [own for one in each for own in one.likely or []],
        parts=len(each),
        split_at=split.at,
        passes=None if each[0].passes is None else sum(one.passes or 0 for one in each),
    )


def _copied(each: Sequence[Translation]) -> list[Copied | None] | None:
    if any(one.copied is None for one in each):
        return None
    found: list[Copied | None] = []
    before = 0
    for part in each:
        found += [one and one._replace(src=one.src + before) for one in part.copied or []]
        before += len(part.src_tokens)
    return found


def _alignment(each: Sequence[Translation]) -> list[list[float]] | None:
    """Each part attends only to itself."""
    if any(one.alignment is None for one in each):
        return None
    width = sum(len(one.src_tokens) for one in each)
    rows, before = [], 0
    for one in each:
        after = width - before - len(one.src_tokens)
        rows += [[0.0] * before + row + [0.0] * after for row in one.alignment or []]
        before += len(one.src_tokens)
    return rows
