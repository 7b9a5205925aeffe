"""Applies `key.sub=value` overrides from the command line to the data of a configuration file.

A value that starts with [ { " or ' is read as YAML; anything else is one plain word, so `a=1e-4` is a
number, `a=null` nothing, `a=no` the text "no", and `a=x: *.txt # y` needs no quotes but the shell's.
"""

import copy
from collections.abc import Sequence
from typing import Any

from qkv.config.parse import Loc, YamlProblem, parse_yaml, scalar
from qkv.config.words import shorten, shown
from qkv.core.errors import ArgumentError, UsageError

FORM = "write key.sub=value, for example model.num_heads=8 or data.train.0.weight=2"


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `data` with every override applied in turn; raises UsageError."""
    return trace_overrides(data, overrides)[0]


def trace_overrides(data: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], dict[Loc, str]]:
    """As `apply_overrides`, and which override each changed place comes from."""
    _require_list(overrides)
    result = copy.deepcopy(data)
    origins: dict[Loc, str] = {}
    for override in overrides:
        try:
            keys, value = parse_override(override)
            changed = put_at(result, keys, value)
        except ValueError as problem:
            raise UsageError(f"{origin_text(override)}: {problem}") from None
        for loc in changed:
            origins = {old: text for old, text in origins.items() if old[: len(loc)] != loc}
        origins.update(dict.fromkeys(changed, override))
    return result, origins


def _require_list(overrides: object) -> None:
    if not isinstance(overrides, list | tuple):
        raise ArgumentError(f'overrides: must be a list of texts such as ["model.num_heads=8"], not {shown(overrides)}')


def origin_text(override: str) -> str:
    """How messages refer to a value given by an override."""
    return f"command line: {shorten(override)}"


def parse_override(override: str) -> tuple[list[str], Any]:
    """The keys and the value of `key.sub=value`; raises ValueError."""
    if not isinstance(override, str):
        raise ArgumentError(f"an override: must be a text such as model.num_heads=8, not {shown(override)}")
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals:
        raise ValueError(f'has no "="; {FORM}')
    if not all(keys) or any(key != key.strip() for key in keys):
        raise ValueError(f"the key is not words joined by dots; {FORM}")
    text = text.strip()
    if not text:
        raise ValueError("has no value; write key=null for nothing, or key='\"\"' for an empty text")
    if text[0] not in "[{\"'":
        return keys, _word(text)
    try:
        return keys, parse_yaml(text).data
    except YamlProblem as problem:
        raise ValueError(f"the value is not YAML: {problem}") from None


def _word(text: str) -> Any:
    try:
        return scalar(text)
    except ValueError:
        raise ValueError("the number has too many digits; write a shorter one") from None


def put_at(data: dict[str, Any], keys: list[str], value: Any) -> list[Loc]:
    """Set the value in place, creating missing groups; returns the places that changed."""
    here: Any = data
    loc: Loc = ()
    changed: list[Loc] = []
    for key in keys[:-1]:
        index = _index(here, key, loc)
        loc += (index,)
        inside = here.get(index) if isinstance(here, dict) else here[index]
        if inside is None or isinstance(inside, str):
            # A bare word stands for {kind: word}, so a key can be set inside it.
            here[index] = {} if inside is None else {"kind": inside}
            changed += [loc] if inside is None else []
            inside = here[index]
        here = inside
    index = _index(here, keys[-1], loc)
    here[index] = value
    return [*changed, (*loc, index)]


def _index(here: Any, key: str, loc: Loc) -> str | int:
    """`key` as it indexes `here`: a name in a group, a number in a list."""
    where = ".".join(map(str, loc))
    if isinstance(here, dict):
        return key
    if not isinstance(here, list):
        raise ValueError(f'{where} is {shown(here)}, so it has no "{key}" inside; {FORM}')
    if not (key.isascii() and key.isdigit()):
        raise ValueError(f'{where} is a list; name the item by its number from 0, not "{key}"')
    if len(key) > 9 or int(key) >= len(here):
        has = f"items 0 to {len(here) - 1}" if here else "no items"
        raise ValueError(f"{where} has {has}; to add one, give the whole list: {where}=[...]")
    return int(key)
