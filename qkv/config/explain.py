"""Turns pydantic's errors into messages: where each problem is, what is wrong and how to fix it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from qkv.config.base import WRONG_SCALAR, Config, Kinds
from qkv.config.parse import Loc
from qkv.config.words import (
    choices,
    did_you_mean,
    field_type,
    in_words,
    is_config,
    is_listing,
    is_mapping,
    item_type,
    members,
    one_of,
    plain_type,
    quoted,
    shorten,
    shown,
)
from qkv.core.errors import ConfigError
from qkv.core.wording import BOUNDS

C = TypeVar("C", bound=Config)

MOST_ERRORS = 100
MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Problem:
    """`loc` holds the keys and list indices as the user wrote them."""

    loc: Loc
    what: str


@dataclass(frozen=True)
class _Spot:
    """A place in the data: its type and value, and the config class whose key it is."""

    loc: Loc
    type: Any
    value: Any
    owner: type[Config] | None = None


def checked(cls: type[C], data: Any, context: str | None = None) -> C | list[Problem]:
    """`data` as a `cls`, or the problems that it has; `context` as in `WRITTEN_BY_QKV`."""
    try:
        valid: C = cls.__pydantic_validator__.validate_python(data, context=context)
        return valid
    except ValidationError as error:
        return explain(cls, data, error)


def refusal(problems: Sequence[Problem], place: Callable[[Problem], str]) -> ConfigError:
    """One error with a line for each problem, which begins with its `place`."""
    lines = [f"{place(problem)}: {problem.what}" for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append("… and more; fix these first")
    return ConfigError("\n".join(lines))


def dotted(loc: Loc) -> str:
    """A place as a person writes it: `model.num_heads`."""
    return ".".join(shorten(str(part)) for part in loc)


def explain(annotation: Any, data: Any, error: ValidationError, at: Loc = ()) -> list[Problem]:
    """Why `data` is not a valid `annotation`: each problem once, in the order of the data."""
    problems: dict[Problem, None] = {}
    for item in error.errors(include_url=False)[:MOST_ERRORS]:
        spot, in_union = _find(_Spot(at, annotation, data), item["loc"])
        found = _explain_union(spot) if in_union else [_problem(item, spot)]
        problems.update(dict.fromkeys(found))
    return sorted(problems, key=lambda problem: _order(data, problem.loc[len(at) :]))


def _order(data: Any, loc: Loc) -> list[int]:
    """Sorts places as they are written; a missing key comes after those that are there."""
    order = []
    for part in loc:
        if isinstance(data, Mapping):
            order.append(list(data).index(part) if part in data else len(data))
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int):
            order.append(part)
            data = data[part] if part < len(data) else None
    return order


def _explain_union(spot: _Spot) -> list[Problem]:
    """Pydantic reports how each member of a union failed; the user meant only one of them."""
    meant = [member for member in members(spot.type) if _has_shape(spot.value, plain_type(member))]
    if len(meant) == 1:
        try:
            TypeAdapter(meant[0]).validate_python(spot.value)
        except ValidationError as error:
            return explain(meant[0], spot.value, error, spot.loc)
    return [Problem(spot.loc, _must_be(spot.type, spot.value))]


def _has_shape(value: Any, kind: Any) -> bool:
    if isinstance(value, Mapping):
        return isinstance(kind, Kinds) or is_config(kind) or is_mapping(kind)
    if isinstance(value, list):
        return is_listing(kind)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return kind is float or (kind is int and isinstance(value, int))
    return False


def _find(spot: _Spot, loc: Loc) -> tuple[_Spot, bool]:
    """Follow pydantic's path through the types, without the names of kinds that it puts in.

    True means that the path continues into a member of a union, and the spot is the union.
    """
    for part in loc:
        options = members(spot.type)
        if len(options) > 1:
            return spot, True
        spot = _step(spot, plain_type(options[0]), part)
    return spot, False


def _step(spot: _Spot, kind: Any, part: str | int) -> _Spot:
    inside = (*spot.loc, part)
    if isinstance(kind, Kinds):
        return _Spot(spot.loc, kind[str(part)], spot.value, spot.owner) if part in kind.names() else spot
    if is_config(kind):
        field = kind.model_fields.get(part)
        value = spot.value.get(part) if isinstance(spot.value, Mapping) else None
        return _Spot(inside, field_type(field) if field else None, value, kind)
    if is_listing(kind) and isinstance(part, int):
        if not isinstance(spot.value, list | tuple):  # a config may take one item where a list is expected
            return _Spot(spot.loc, item_type(kind), spot.value)
        value = spot.value[part] if part < len(spot.value) else None
        return _Spot(inside, item_type(kind, part), value)
    if is_mapping(kind) and isinstance(spot.value, Mapping) and part in spot.value:
        return _Spot(inside, item_type(kind), spot.value[part])
    return spot


def _problem(item: ErrorDetails, spot: _Spot) -> Problem:
    kind = plain_type(members(spot.type)[0])
    if isinstance(kind, Kinds) and item["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_kind(item, spot, kind)
    return Problem(spot.loc, _what(item, spot))


def _unknown_kind(item: ErrorDetails, spot: _Spot, kinds: Kinds[Any]) -> Problem:
    names = kinds.names()
    if item["type"] == "union_tag_not_found":
        return Problem(spot.loc, f'has no "kind"; add one of the kinds of {kinds.name}: {", ".join(names)}')
    given = str(item.get("ctx", {}).get("tag", ""))
    hint = did_you_mean(given, names)
    listed = f"the kinds of {kinds.name} are {', '.join(names)}"
    advice = f"{hint} ({listed})" if hint else listed
    # The user wrote either {kind: given}, or only the word.
    loc = (*spot.loc, "kind") if isinstance(spot.value, Mapping) else spot.loc
    return Problem(loc, f"unknown kind {quoted(given)}; {advice}")


def _what(item: ErrorDetails, spot: _Spot) -> str:
    """The message for one error; pydantic's own wording is the last resort."""
    found, value, context = item["type"], item["input"], item.get("ctx", {})
    if found == "extra_forbidden":
        return _unknown_key(spot)
    if found == "missing":
        return f"is missing; add it ({in_words(spot.type)})"
    if found in ("value_error", "assertion_error"):
        return " ".join(str(context.get("error", item["msg"])).split())
    if found in BOUNDS:
        words, limit = BOUNDS[found]
        return f"must be {words} {context[limit]}, not {shown(value)}"
    if found.endswith(("too_short", "too_long")):
        limit, words = ("min_length", "at least") if found.endswith("short") else ("max_length", "at most")
        return f"must have {words} {context[limit]} {'characters' if isinstance(value, str) else 'items'}"
    if found == "int_parsing_size":
        return f"is far too large: {shown(value)}"
    if found == "finite_number":
        return f"must be a finite number, not {value}"
    if found == "literal_error":
        hint = (
            did_you_mean(value, [str(arg) for arg in choices(members(spot.type)[0])])
            if isinstance(value, str)
            else None
        )
        return _must_be(spot.type, value) + (f"; {hint}" if hint else "")
    if found == WRONG_SCALAR or found.endswith(("_type", "_parsing", "_from_float")):
        return _must_be(spot.type, value)
    message = item["msg"].replace("Input should", "must")
    return f"{message[:1].lower()}{message[1:]}, not {shown(value)}"


def _must_be(annotation: Any, value: Any) -> str:
    said = f"must be {in_words(annotation)}, not {shown(value)}"
    accepts_truth = bool in map(plain_type, members(annotation))
    truth = _TRUTH.get(value.lower()) if isinstance(value, str) and accepts_truth else None
    return f"{said}; write {truth}" if truth else said


_TRUTH = dict.fromkeys(["no", "off", "n", "false"], "false") | dict.fromkeys(["yes", "on", "y", "true"], "true")


def _unknown_key(spot: _Spot) -> str:
    names = list(spot.owner.model_fields) if spot.owner else []
    hint = did_you_mean(str(spot.loc[-1]), names)
    kind = spot.owner.model_fields["kind"].default if spot.owner and "kind" in names else None
    here = f" of kind {quoted(kind)}" if isinstance(kind, str) else ""
    if not names:
        return f"unknown key{here}; there are no keys here"
    return f"unknown key{here}; {hint or 'the keys here are ' + one_of(names).replace(' or ', ' and ')}"
