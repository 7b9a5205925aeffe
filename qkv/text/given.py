"""Checks texts given by a Python program before they are used.

A str is also a sequence of letters: where a list of texts is expected, a single text would pass for a list of
one-letter texts.
"""

from collections.abc import Iterable, Iterator, Mapping

from qkv.core.errors import ArgumentError

Texts = Iterable[str]


def checked_text(name: str, given: object) -> str:
    """`given`, which must be one text; `name` says in the ArgumentError what it is."""
    if isinstance(given, str):
        return given
    hint = '; decode it first: .decode("utf-8")' if isinstance(given, bytes | bytearray) else ""
    raise ArgumentError(f"{name}: must be text (str), not {type_name(given)}{hint}")


def checked_texts(name: str, given: Texts) -> Iterator[str]:
    """The texts one after another. Raises ArgumentError at once if there is no list, and later at an item."""
    require_list(name, given, "texts")
    return (checked_text(f"{name}[{number}]", text) for number, text in enumerate(given))


def require_list(name: str, given: object, of: str) -> None:
    """Refuse what is not a list, a tuple or another iterable in an order; a text is one text and not a list."""
    if isinstance(given, str):
        raise ArgumentError(f"{name}: must be a list of {of}, not one text; put it in a list: [...]")
    if isinstance(given, bytes | bytearray | Mapping | set | frozenset) or not isinstance(given, Iterable):
        raise ArgumentError(f"{name}: must be a list of {of}, not {type_name(given)}")


def type_name(given: object) -> str:
    """`None`, or the name of the type, for messages."""
    return "None" if given is None else type(given).__name__
