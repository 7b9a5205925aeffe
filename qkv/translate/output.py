"""A translation, and the output formats of `qkv translate`."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from qkv.data.aligned import one_line
from qkv.data.alignments.pharaoh import format_links
from qkv.data.alignments.words import WordAlignment, word_alignment
from qkv.search.base import SearchConfig
from qkv.search.hypothesis import Copied
from qkv.translate.notebook import translation_html


class TokenChoice(NamedTuple):
    """A token that could stand at a place, and how probable it is there."""

    token: str
    probability: float


@dataclass(frozen=True)
class Translation:
    """The best output for a text, and the others that were asked for.

    Examples:
        >>> from qkv import Translator
        >>> found = Translator("runs/reverse").translate("abc", nbest=2)
        >>> found.src_tokens, len(found.alternatives), found.score >= found.alternatives[0].score
        (['a', 'b', 'c', '</s>'], 1, True)
    """

    text: str
    score: float
    """What the search ranks by; higher is better."""
    tokens: list[str]
    token_scores: list[float]
    """The log-probability of each token, and of END if the output ended by itself; empty if nobody asked for them."""
    src_tokens: list[str]
    """The source as the model read it, END included; what an alignment refers to."""
    unknown: list[str] = field(default_factory=list)
    """Words of the source, or characters of them, that are not in the model's vocabulary: it reads them as <unk>."""
    src_cut: bool = False
    """Whether the source was longer than the model can read, or than was allowed, and lost its end."""
    out_cut: bool = False
    """Whether the output was stopped before it ended by itself, at its longest length."""
    parts: int = 1
    """In how many parts the source was translated, because it was too long for the model. The score is then the sum of
    theirs, and the tokens of the source and the scores of tokens hold the END of each."""
    split_at: str | None = None
    """Where it was split: sentence, clause, word or character; None: nowhere."""
    alternatives: list["Translation"] = field(default_factory=list)
    """The rest of the n-best, best first."""
    alignment: list[list[float]] | None = None
    """`alignment[token][src_token]`: how much each token looked at each source token; only when asked for."""
    passes: int | None = None
    """How many passes of the decoder it took, where one may give several tokens: with drafts, or all at once."""
    copied: list[Copied | None] | None = None
    """For each token the position of the source token that it copies, and how much of its probability comes from
    copying; None: it was generated. Only when asked for."""
    likely: list[list[TokenChoice]] | None = None
    """The most probable tokens of each place after what stands before it, that of END included, best first. Only when
    asked for, and only of a model that writes from left to right."""

    @property
    def truncated(self) -> bool:
        """Whether anything was cut."""
        return self.src_cut or self.out_cut

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        return translation_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        found: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "tokens": self.tokens,
            "token_scores": self.token_scores,
            "truncated": self.truncated,
            "parts": self.parts,
            "split_at": self.split_at,
            "src_tokens": self.src_tokens,
            "unknown": self.unknown,
            "alternatives": [other.as_dict() for other in self.alternatives],
        }
        copied = None if self.copied is None else [one and one._asdict() for one in self.copied]
        likely = None if self.likely is None else [[one._asdict() for one in place] for place in self.likely]
        more = {"alignment": self.alignment, "passes": self.passes, "copied": copied, "likely": likely}
        return found | {name: value for name, value in more.items() if value is not None}


Formatter = Callable[[int, Translation], str]
"""From the number of an input line, counted from 1, and its translation to the output with its line ends."""


def plain(number: int, translation: Translation) -> str:
    """The text; always one line."""
    return one_line(translation.text) + "\n"


def with_score(number: int, translation: Translation) -> str:
    """Score, tab, text."""
    return f"{translation.score:.6f}\t{one_line(translation.text)}\n"


def with_links(number: int, translation: Translation) -> str:
    """Text, tab, the links of its words with those of the source in Pharaoh format."""
    return f"{one_line(translation.text)}\t{format_links(words_of_translation(translation).links)}\n"


def words_of_translation(translation: Translation) -> WordAlignment:
    """The alignment of a translation that has one, word by word."""
    return word_alignment(np.array(translation.alignment or []), translation.src_tokens, translation.tokens)


def table(number: int, translation: Translation) -> str:
    """A line for each of the n-best: line number, rank, score and text, with tabs between them."""
    each = [translation, *translation.alternatives]
    return "".join(
        f"{number}\t{rank}\t{one.score:.6f}\t{one_line(one.text)}\n" for rank, one in enumerate(each, start=1)
    )


def as_json(number: int, translation: Translation) -> str:
    """One JSON object."""
    return json.dumps({"line": number, **translation.as_dict()}, ensure_ascii=False) + "\n"


def limit_keys(search: SearchConfig, tokens: int | None = None) -> str:
    """The settings that change the limit of an output that was cut, after `tokens` tokens if given."""
    if search.max_factor is None or (tokens is not None and tokens == search.max_length):
        return "search.max_length sets another limit"
    return "search.max_factor and search.max_extra set another limit"


class LongLines:
    """Reports which lines were cut and which were translated in parts; the first few of each individually."""

    SHOWN = 10

    def __init__(self, name: str, search: SearchConfig, say: Callable[[str], None]) -> None:
        self.name, self.search, self.say = name, search, say
        self.cut = self.split = 0

    def look(self, first: int, translations: Iterable[Translation]) -> None:
        for number, translation in enumerate(translations, start=first):
            if translation.truncated:
                self.cut += 1
                self._tell(self.cut, number, _why_cut(translation, self.search))
            if translation.parts > 1:
                self.split += 1
                self._tell(self.split, number, _why_split(translation))

    def _tell(self, count: int, number: int, why: str) -> None:
        if count <= self.SHOWN:
            self.say(f"{self.name}:{number}: {why}")

    def close(self) -> None:
        for count, what in ((self.cut, "cut"), (self.split, "translated in parts")):
            if count > self.SHOWN:
                self.say(f"{self.name}: {count:,} lines in all were {what}")


@dataclass
class PassCount:
    """Counts decoder passes and the tokens they gave, END included."""

    lines: int = 0
    tokens: int = 0
    passes: int = 0

    def look(self, translations: Iterable[Translation]) -> None:
        for one in translations:
            if one.passes:
                self.lines += 1
                self.tokens += len(one.token_scores)
                self.passes += one.passes

    def told(self) -> str:
        numbers = (self.tokens / self.passes, self.passes / self.lines, self.tokens / self.lines)
        return "drafts: {:.2f} tokens a pass, {:.2f} passes a line in place of {:.2f}".format(*numbers)


def _why_cut(translation: Translation, search: SearchConfig) -> str:
    if translation.src_cut:
        read = len(translation.src_tokens) - translation.parts
        return f"too long: only its first {read:,} tokens were translated (max_src_tokens, or the model's longest)"
    tokens = len(translation.tokens)
    return f"the output was stopped after {tokens:,} tokens; {limit_keys(search, tokens)}"


def _why_split(translation: Translation) -> str:
    read = len(translation.src_tokens) - translation.parts
    where = {"sentence": "ends of sentences", "clause": "clause marks", "word": "spaces"}
    place = where.get(translation.split_at or "", "any character")
    return f"too long: its {read:,} tokens were translated in {translation.parts:,} parts, split at {place}"
