"""A configuration from a file and the command line, or from data: whole and checked, or one UsageError."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from qkv.config.base import Config
from qkv.config.explain import explain
from qkv.config.overrides import origin_text, trace_overrides
from qkv.config.parse import Document, Loc
from qkv.config.words import shorten, shown
from qkv.config.yaml import read_yaml
from qkv.errors import UsageError

C = TypeVar("C", bound=Config)

Where = Callable[[Loc], str]
MOST_PROBLEMS = 20


def load_config(cls: type[C], path: Path | str, overrides: Sequence[str] = ()) -> C:
    """Read `path`, lay the `key.sub=value` overrides over it, and check it all; raises one UsageError."""
    path = Path(path)
    document = read_yaml(path)
    if not isinstance(document.data, dict):
        raise UsageError(f"{path}:{document.line_of(())}: must hold key: value lines, not {shown(document.data)}")
    data, origins = trace_overrides(document.data, overrides)
    return validate(cls, data, _places(path, document, origins))


def validate(cls: type[C], data: Any, where: str | Where) -> C:
    """`data` as a `cls`, or a UsageError with a line for each problem.

    `where` begins each line: a name such as "config.yaml", to which the key is added, or a function from
    the place in the data to the words that name it.
    """
    place = where if callable(where) else _named(where)
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        lines = [f"{place(problem.loc)}: {problem.what}" for problem in explain(cls, data, error)]
    if len(lines) > MOST_PROBLEMS:
        lines[MOST_PROBLEMS:] = ["… and more; mend these first"]
    raise UsageError("\n".join(lines))


def _dotted(loc: Loc) -> str:
    return ".".join(shorten(str(part)) for part in loc)


def _named(name: str) -> Where:
    return lambda loc: f"{name}: {_dotted(loc)}" if loc else name


def _places(path: Path, document: Document, origins: dict[Loc, str]) -> Where:
    """`file:line: key`, or `command line: key=value` for what an override gave."""

    def place(loc: Loc) -> str:
        outwards = [loc[:length] for length in range(len(loc), 0, -1)]  # the place itself first
        for outer in outwards:
            if outer in origins:
                text = origin_text(origins[outer])
                given = origins[outer].partition("=")[0].strip()
                return text if given == _dotted(loc) else f"{text}: {_dotted(loc)}"
            line = document.line_of(outer)
            if line is not None:
                return f"{path}:{line}: {_dotted(loc)}"
        return f"{path}: {_dotted(loc)}" if loc else str(path)

    return place
