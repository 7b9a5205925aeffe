"""The reference page and the JSON Schema of a configuration, made from its fields and their docstrings."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from qkv.config.base import Config, Kinds
from qkv.config.periods import Period
from qkv.config.words import field_type, in_words, is_config, item_type, members, plain_type

_SIGNS: dict[type, tuple[str, str]] = {Gt: (">", "gt"), Ge: ("≥", "ge"), Lt: ("<", "lt"), Le: ("≤", "le")}
_HEAD = "| Key | Type | Default | Meaning |\n|---|---|---|---|\n"


@dataclass(frozen=True)
class _Row:
    path: str
    field: FieldInfo


def schema(cls: type[Config]) -> dict[str, Any]:
    """JSON Schema (2020-12) of the configuration file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **cls.model_json_schema()}


def reference_page(cls: type[Config], title: str, about: str, behind: type[Config] | None = None) -> str:
    """Markdown: `title` and `about`, a table of all keys, then for every component a table for each of its kinds.

    Kinds that the preceding page, that of `behind`, describes are left out.
    """
    parts = [f"# {title}\n\n{about}\n\n{_table(cls)}"]
    described = [] if behind is None else list(_all_kinds(behind))
    for kinds in (kinds for kinds in _all_kinds(cls) if kinds not in described):
        parts.append(f"## {_title(kinds)}\n\nOne of: {', '.join(f'`{name}`' for name in kinds.names())}.\n")
        for config in kinds:
            kind = config.model_fields["kind"].default
            parts.append(f"### {kinds.name} `{kind}`\n\n{_prose(config)}{_table(config)}")
    return "\n".join(parts)


def _title(kinds: Kinds[Any]) -> str:
    return f"Kinds of {kinds.name}"


def _prose(cls: type[Config]) -> str:
    """The class's own docstring, not the one it inherits."""
    own = cls.__dict__.get("__doc__")
    return f"{' '.join(own.split())}\n\n" if own else ""


def _table(cls: type[Config]) -> str:
    return _HEAD + "".join(f"| {' | '.join(_cells(row))} |\n" for row in _rows(cls, ""))


def _rows(cls: type[Config], prefix: str) -> Iterator[_Row]:
    """Every key of a config, and of the configs inside it; kinds have tables of their own."""
    for name, field in cls.model_fields.items():
        yield _Row(prefix + name, field)
        for inside, mark in _inside(field_type(field)):
            if is_config(inside) and inside is not cls:
                yield from _rows(inside, f"{prefix}{name}{mark}.")


def _inside(annotation: Any) -> Iterator[tuple[Any, str]]:
    """The types within an annotation, and what a path to them has after the key."""
    for member in members(annotation):
        kind = plain_type(member)
        if is_config(kind) or isinstance(kind, Kinds):
            yield kind, ""
        elif (item := item_type(kind)) is not Any:
            yield from ((inner, f".*{mark}") for inner, mark in _inside(item))


def _all_kinds(cls: type[Config]) -> list[Kinds[Any]]:
    """The registries that a config uses, those inside kinds too, in the order of the page."""
    found: list[Kinds[Any]] = []
    waiting: list[type[Config]] = [cls]
    while waiting:
        for row in _rows(waiting.pop(0), ""):
            for kind, _ in _inside(field_type(row.field)):
                if isinstance(kind, Kinds) and kind not in found:
                    found.append(kind)
                    waiting.extend(kind)
    return found


def _cells(row: _Row) -> list[str]:
    limits = [f"{sign} {_number(getattr(item, name))}" for item in row.field.metadata for sign, name in _sign(item)]
    kind = ", ".join([_type(row.field), *limits])
    cells = [f"`{row.path}`", kind, _default(row.field), row.field.description or ""]
    return [" ".join(cell.split()).replace("|", "\\|") for cell in cells]


def _number(value: float) -> str:
    """Integers are written in full: every digit of a limit counts."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _type(field: FieldInfo) -> str:
    words = in_words(field_type(field))
    used = [kind for kind, _ in _inside(field_type(field)) if isinstance(kind, Kinds)]
    for kinds in used:
        anchor = _title(kinds).lower().replace(" ", "-")
        words = words.replace(in_words(kinds), f"[{kinds.name}](#{anchor})")
    return words


def _sign(item: Any) -> list[tuple[str, str]]:
    return [_SIGNS[type(item)]] if type(item) in _SIGNS else []


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Config):
        return _default_config(value)
    plain = str(value) if isinstance(value, Period) else to_jsonable_python(value)
    return f"`{json.dumps(plain, ensure_ascii=False)}`"


def _default_config(value: Config) -> str:
    """The kind, and what differs from the defaults that its own table shows."""
    kind = getattr(value, "kind", None)
    differs = value.model_dump(mode="json", exclude_defaults=True)
    if kind is None:
        return f"`{json.dumps(differs, ensure_ascii=False)}`" if differs else "its defaults"
    return f"`{json.dumps({'kind': kind, **differs}, ensure_ascii=False)}`" if differs else f"`{kind}`"
