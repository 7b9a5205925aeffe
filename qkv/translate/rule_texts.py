"""Constraints on an output, given as texts; impossible ones are reported in words."""

from collections.abc import Sequence
from functools import cached_property

from qkv.core.errors import UsageError
from qkv.search.base import Constraints
from qkv.search.constraints import contains
from qkv.text import SPECIAL
from qkv.text.special import NEVER_OUTPUT
from qkv.text.tokenizer import OutputTokenizer, Tokenizer

SHOWN = 60
"""Characters of a source in a message."""


class RuleTexts:
    """Rules in the pieces of the output's tokenizer.

    A rule acts on the one sequence of tokens that its words are encoded to, as if they began a text: the same letters
    in other pieces, inside a longer word for example, are not what it forbids or requires.
    """

    def __init__(self, tokenizer: Tokenizer, forbidden: Sequence[str]) -> None:
        self._vocabulary = tokenizer
        self._forbidden = [(words, _sequence(tokenizer, "forbidden", words)) for words in forbidden]

    def constraints(
        self,
        tokenizer: OutputTokenizer,
        text: str,
        prefix: str,
        prefix_tokens: Sequence[str],
        required: Sequence[str],
    ) -> Constraints:
        """For the output of one text, in the pieces of its tokenizer; an empty prefix is none."""
        where = f", for the text {_short(text)}"
        wanted = [(words, _sequence(tokenizer, "required", words, where)) for words in required]
        for words, ids in wanted:
            for other, unwanted in self._forbidden:
                if contains(ids, unwanted):
                    raise UsageError(f"required {_short(words)}{where}: holds the forbidden {_short(other)}; drop one")
        beginning = self._tokens(prefix_tokens, where) or (_ids(tokenizer, "prefix", prefix, where) if prefix else [])
        ended = beginning[-1:] == [SPECIAL.eos]
        return Constraints(
            prefix=beginning[:-1] if ended else beginning,
            forbidden=[ids for _, ids in self._forbidden],
            required=[ids for _, ids in wanted],
            length=(len(beginning) - 1, len(beginning) - 1) if ended else None,
        )

    def _tokens(self, tokens: Sequence[str], where: str) -> list[int]:
        """The ids of given tokens; END can only be the last one."""
        if not tokens:
            return []
        ids = [self._known.get(token, SPECIAL.pad) for token in tokens]
        for place, (token, i) in enumerate(zip(tokens, ids, strict=True)):
            if i in NEVER_OUTPUT or (i == SPECIAL.eos and place + 1 < len(ids)):
                raise UsageError(f"prefix_tokens{where}: an output cannot have {_short(token)} there; change it")
        return ids

    @cached_property
    def _known(self) -> dict[str, int]:
        """The tokens of the vocabulary; where two look alike, the first one."""
        ids = range(len(self._vocabulary))
        return dict(reversed([*zip(self._vocabulary.tokens(ids), ids, strict=True)]))


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
