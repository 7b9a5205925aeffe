"""Types and values in words, for error messages and the reference page."""

import difflib
import types
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from qkv.config.base import Config, Kinds
from qkv.config.names import Names
from qkv.config.periods import Period

_SCALARS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    Period: 'a period such as "500u"',
    types.NoneType: "null",
    None: "null",
}
LONGEST = 60


def field_type(field: FieldInfo) -> Any:
    """A field's type, with its registry, if it has one, in place of the base class."""
    kinds = [item for item in field.metadata if isinstance(item, Kinds | Names)]
    return kinds[0] if kinds else plain_type(field.annotation)


def plain_type(annotation: Any) -> Any:
    """An annotation without `Annotated`; what a registry decides is that registry (Kinds or Names)."""
    if get_origin(annotation) is Annotated:
        base, *metadata = get_args(annotation)
        kinds = [item for item in metadata if isinstance(item, Kinds | Names)]
        return kinds[0] if kinds else plain_type(base)
    return annotation


def members(annotation: Any) -> list[Any]:
    """The annotations that a union allows besides None, kept with their constraints; one when it is no union."""
    plain = plain_type(annotation)
    if get_origin(plain) not in (Union, types.UnionType):
        return [annotation]
    return [found for arg in get_args(plain) if arg is not types.NoneType for found in members(arg)]


def is_config(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Config)


def item_type(kind: Any, index: int = -1) -> Any:
    """X of `list[X]`, `tuple[X, ...]`, `dict[str, X]`; of `tuple[X, Y]` the one at `index`."""
    args = [arg for arg in get_args(kind) if arg is not Ellipsis]
    fixed = get_origin(kind) is tuple and index < len(args)
    return args[index if fixed else -1] if args else Any


def is_listing(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Collection) and not issubclass(origin, str | bytes | Mapping)


def is_mapping(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Mapping)


def in_words(annotation: Any) -> str:
    """`int | None` is "a whole number or null"."""
    kind = plain_type(annotation)
    if get_origin(kind) in (Union, types.UnionType):
        return one_of(list(dict.fromkeys(words for arg in get_args(kind) for words in _alternatives(arg))))
    if choices(kind):
        return one_of(_alternatives(kind))
    if isinstance(kind, Kinds):
        return f"one of the kinds of {kind.name} ({', '.join(kind.names())})"
    if is_listing(kind):
        item = item_type(kind)
        return "a list" if item is Any else f"a list (each item {in_words(item)})"
    if is_config(kind) or is_mapping(kind):
        return "a group of keys"
    return _SCALARS.get(kind) or str(getattr(kind, "__name__", kind))


def choices(annotation: Any) -> list[Any]:
    """The values of a Literal, or the names of a registry; none for any other type."""
    kind = plain_type(annotation)
    if isinstance(kind, Names):
        return kind.names()
    return list(get_args(kind)) if get_origin(kind) is Literal else []


def _alternatives(annotation: Any) -> list[str]:
    """Each value of a choice, or the type in words."""
    return [quoted(value) for value in choices(annotation)] or [in_words(annotation)]


def one_of(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def shorten(text: str) -> str:
    """At most LONGEST characters, on one line and harmless to a terminal."""
    cut = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def quoted(value: Any) -> str:
    """A scalar as it is written in YAML, text in quotes."""
    if isinstance(value, str):
        return f'"{shorten(value)}"'
    if isinstance(value, bool):
        return str(value).lower()
    return shorten(str(value))


def shown(value: Any) -> str:
    """What the user gave: `the text "no"`, `a list`, `3`."""
    if value is None:
        return "null (empty)"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    if isinstance(value, Mapping):
        return "a group of keys"
    if isinstance(value, list | tuple):
        return "a list"
    plain = isinstance(value, int | float | Path | Period)
    return quoted(value) if plain else f"an object of the type {type(value).__name__}"


def did_you_mean(given: str, names: Collection[str]) -> str | None:
    """`did you mean "num_heads"?` for the nearest name, when one is near."""
    spelled = {name.lower().replace("_", "-"): name for name in names}
    near = difflib.get_close_matches(given[:LONGEST].lower().replace("_", "-"), spelled, 1)
    return f'did you mean "{spelled[near[0]]}"?' if near else None
