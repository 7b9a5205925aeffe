"""Constraints on an output, given as texts; impossible ones are reported in words."""

from collections.abc import Sequence

from qkv.core.errors import UsageError
from qkv.search.base import Constraints
from qkv.search.constraints import contains
from qkv.text import SPECIAL
from qkv.text.tokenizer import OutputTokenizer

SHOWN = 60
"""Characters of a source in a message."""


class RuleTexts:
    """Rules in the pieces of the output's tokenizer.

    A rule acts on the one sequence of tokens that its words are encoded to, as if they began a text: the same letters
    in other pieces, inside a longer word for example, are not what it forbids or requires.
    """

    def __init__(self, tokenizer: OutputTokenizer, forbidden: Sequence[str]) -> None:
        self._forbidden = [(words, _sequence(tokenizer, "forbidden", words)) for words in forbidden]

    def constraints(self, tokenizer: OutputTokenizer, text: str, prefix: str, required: Sequence[str]) -> Constraints:
        """For the output of one text, in the pieces of its tokenizer; an empty prefix is none."""
        where = f", for the text {_short(text)}"
        wanted = [(words, _sequence(tokenizer, "required", words, where)) for words in required]
        for words, ids in wanted:
            for other, unwanted in self._forbidden:
                if contains(ids, unwanted):
                    raise UsageError(f"required {_short(words)}{where}: holds the forbidden {_short(other)}; drop one")
        return Constraints(
            prefix=_ids(tokenizer, "prefix", prefix, where) if prefix else [],
            forbidden=[ids for _, ids in self._forbidden],
            required=[ids for _, ids in wanted],
        )


def _sequence(tokenizer: OutputTokenizer, kind: str, words: str, where: str = "") -> list[int]:
    ids = _ids(tokenizer, kind, words, where)
    if not ids:
        raise UsageError(f"{kind} {_short(words)}{where}: has no tokens; leave it out")
    return ids


def _ids(tokenizer: OutputTokenizer, kind: str, words: str, where: str) -> list[int]:
    ids = tokenizer.encode(words)
    if SPECIAL.unk in ids:
        unknown = next((word for word in words.split() if SPECIAL.unk in tokenizer.encode(word)), words)
        raise UsageError(f"{kind} {_short(words)}{where}: the model does not know {_short(unknown)}; change it")
    return ids


def _short(text: str) -> str:
    return f'"{text}"' if len(text) <= SHOWN else f'"{text[:SHOWN]}..."'
