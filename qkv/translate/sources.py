"""Checks the texts given to a `Translator`, each with the constraints on its output."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat

from qkv.core.errors import ArgumentError, UsageError
from qkv.text.given import checked_text, checked_texts, require_list, type_name
from qkv.translate.texts import SourceText

TextPair = tuple[str, str]


def sources_of(
    texts: Iterable[str], prefixes: Iterable[str] | None, required: Iterable[Iterable[str]] | None
) -> Iterator[SourceText]:
    """Each text with its prefix and required words. Wrong items are rejected when they are reached."""
    beginnings = repeat("") if prefixes is None else checked_texts("prefixes", prefixes)
    words: Iterator[Sequence[str]] = repeat(()) if required is None else _word_lists(required)
    given = {
        name: rest
        for name, own, rest in (("prefixes", prefixes, beginnings), ("required words", required, words))
        if own is not None
    }
    return _paired(checked_texts("texts", texts), beginnings, words, given)


def _word_lists(required: Iterable[Iterable[str]]) -> Iterator[Sequence[str]]:
    require_list("required", required, "lists of words")
    return (tuple(checked_texts(f"required[{number}]", words)) for number, words in enumerate(required))


def _paired(
    texts: Iterator[str],
    prefixes: Iterator[str],
    required: Iterator[Sequence[str]],
    given: Mapping[str, Iterator[object]],
) -> Iterator[SourceText]:
    number = 0
    for number, text in enumerate(texts, start=1):
        prefix, words = next(prefixes, None), next(required, None)
        if prefix is None or words is None:
            missing = "prefix" if prefix is None else "required words"
            raise UsageError(f"text {number:,} has no {missing}; give one entry for each text, empty for none")
        yield SourceText(text, prefix, tuple(words))
    for name, rest in given.items():
        if next(rest, None) is not None:
            raise UsageError(f"there are {number:,} texts but more {name}; give one entry for each text")


def checked_pairs(pairs: Iterable[TextPair], name: str = "pairs") -> list[TextPair]:
    """Sources and targets; `name` says in an ArgumentError what they are."""
    require_list(name, pairs, "pairs (source, target)")
    return [_pair(f"{name}[{number}]", pair) for number, pair in enumerate(pairs)]


def _pair(name: str, pair: object) -> TextPair:
    if not isinstance(pair, Sequence) or isinstance(pair, str | bytes | bytearray):
        raise ArgumentError(f"{name}: must be a pair (source, target), not {type_name(pair)}")
    if len(pair) != 2:
        raise ArgumentError(f"{name}: must be a pair (source, target), but has {len(pair):,} items")
    return checked_text(f"{name}[0]", pair[0]), checked_text(f"{name}[1]", pair[1])


def is_one_pair(pairs: object) -> bool:
    """A tuple of two texts."""
    return isinstance(pairs, tuple) and len(pairs) == 2 and all(isinstance(text, str) for text in pairs)
