"""Loads and dumps configurations. Loading gives a fully validated config, or raises one ConfigError."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from qkv.config.base import WRITTEN_BY_QKV, Config, ExtensibleConfig
from qkv.config.blame import Blame
from qkv.config.explain import Problem, checked, dotted, refusal
from qkv.config.parse import Document, Loc
from qkv.config.words import shown
from qkv.config.yaml import read_yaml, write_yaml
from qkv.core.errors import ArgumentError, ConfigError
from qkv.core.plugins import import_modules, load_installed, require_modules

C = TypeVar("C", bound=Config)

OWN_FILE = "config.yaml"
"""What qkv calls the configs that it writes: of a run, and of a saved model."""
Where = Callable[[Loc], str]
"""Describes a place in the data, for messages."""


def load_config(cls: type[C], path: Path | str, overrides: Sequence[str] = ()) -> C:
    """Read `path`, apply the `key.sub=value` overrides and validate the result; raises one ConfigError.

    Examples:
        >>> from qkv import Recipe, load_config
        >>> recipe = load_config(Recipe, "runs/reverse/config.yaml", ["model.dropout=0.2"])
        >>> recipe.model.dropout
        0.2
    """
    if not (isinstance(cls, type) and issubclass(cls, Config)):
        raise ArgumentError(f"load_config takes a class such as Recipe, then a file, not {shown(cls)}")
    if not isinstance(path, Path | str):
        raise ArgumentError(f"load_config takes a class, then a file (str or Path), not {shown(path)}")
    path = Path(path)
    document = read_yaml(path)
    if not isinstance(document.data, dict):
        raise ConfigError(f"{path}:{document.line_of(())}: must hold key: value lines, not {shown(document.data)}")
    context = WRITTEN_BY_QKV if path.name == OWN_FILE else None
    return with_overrides(cls, document.data, overrides, _lines(path, document), context)


def with_overrides(
    cls: type[C], data: dict[str, Any], overrides: Sequence[str], where: str | Where, context: str | None = None
) -> C:
    """`data` with the overrides applied, as a `cls`; a problem names the override that caused it."""
    blame = Blame(cls, data, overrides)
    place = _place(where)
    return _whole(cls, blame.changed, lambda problem: blame.override(problem) or place(problem.loc), context)


def validate(cls: type[C], data: Any, where: str | Where, context: str | None = None) -> C:
    """`data` as a `cls`, or a ConfigError with a line for each problem; `context` as in `WRITTEN_BY_QKV`.

    Each line begins with `where`: a name such as "config.yaml", to which the key is added, or a function that describes
    the place in the data.
    """
    place = _place(where)
    return _whole(cls, data, lambda problem: place(problem.loc), context)


def _whole(cls: type[C], data: Any, place: Callable[[Problem], str], context: str | None = None) -> C:
    load_installed()
    _load_named(cls, data)
    found = checked(cls, data, context)
    if isinstance(found, list):
        raise refusal(found, place)
    return found


def _load_named(cls: type[Config], data: Any) -> None:
    """Import the modules that the data names, so that their kinds are registered; other values are rejected later."""
    if not (issubclass(cls, ExtensibleConfig) and isinstance(data, dict)):
        return
    names = data.get("imports")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        require_modules(names) if cls.asks else import_modules(names)


def _place(where: str | Where) -> Where:
    return where if callable(where) else lambda loc: f"{where}: {dotted(loc)}" if loc else where


def _lines(path: Path, document: Document) -> Where:
    """`file:line: key`."""

    def place(loc: Loc) -> str:
        for length in range(len(loc), 0, -1):  # the place itself first, then what encloses it
            line = document.line_of(loc[:length])
            if line is not None:
                return f"{path}:{line}: {dotted(loc)}"
        return f"{path}: {dotted(loc)}" if loc else str(path)

    return place


def dump_config(config: Config) -> str:
    """The resolved configuration as YAML, every default included: `load_config` makes an equal config of it."""
    return write_yaml(config.model_dump(mode="json"))


def differing_keys(some: Config, other: Config) -> list[str]:
    """The keys whose values differ, such as `model.num_heads`; a group of a different kind is one key."""
    return [".".join(keys) for keys in _differing(some.model_dump(mode="json"), other.model_dump(mode="json"), ())]


def _differing(some: Any, other: Any, at: tuple[str, ...]) -> list[tuple[str, ...]]:
    if some == other:
        return []
    if not (isinstance(some, dict) and isinstance(other, dict) and some.keys() == other.keys()):
        return [at]
    return [keys for key in some for keys in _differing(some[key], other[key], (*at, key))]
