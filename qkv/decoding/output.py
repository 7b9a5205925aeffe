"""Translations as lines of text, in the forms that `qkv translate` writes."""

import json
from collections.abc import Callable, Iterable

from qkv.data.aligned import one_line
from qkv.decoding.translation import Translation

Form = Callable[[int, Translation], str]
"""The number of an input line, from 1 on, and its translation -> the output, each line with its end."""


def plain(number: int, translation: Translation) -> str:
    """The text; always one line."""
    return one_line(translation.text) + "\n"


def with_score(number: int, translation: Translation) -> str:
    """Score, tab, text."""
    return f"{translation.score:.6f}\t{one_line(translation.text)}\n"


def table(number: int, translation: Translation) -> str:
    """A line for each of the n-best: line number, rank, score and text, with tabs between them."""
    each = [translation, *translation.alternatives]
    return "".join(
        f"{number}\t{rank}\t{one.score:.6f}\t{one_line(one.text)}\n" for rank, one in enumerate(each, start=1)
    )


def as_json(number: int, translation: Translation) -> str:
    """One JSON object."""
    return json.dumps({"line": number, **translation.as_dict()}, ensure_ascii=False) + "\n"


class CutLines:
    """Tells which lines were cut, the first ones one by one."""

    SHOWN = 10

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self.name, self.say, self.count = name, say, 0

    def look(self, first: int, translations: Iterable[Translation]) -> None:
        for number, translation in enumerate(translations, start=first):
            if translation.truncated:
                self.count += 1
                if self.count <= self.SHOWN:
                    self.say(f"{self.name}:{number}: {_why(translation)}")

    def close(self) -> None:
        if self.count > self.SHOWN:
            self.say(f"{self.name}: {self.count:,} lines in all were cut")


def _why(translation: Translation) -> str:
    if translation.src_cut:
        read = len(translation.src_tokens) - 1
        return f"too long: only its first {read:,} tokens were translated (max_src_tokens, or the model's longest)"
    return f"the output was stopped after {len(translation.tokens):,} tokens (search.max_factor, search.max_length)"
