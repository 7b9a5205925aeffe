"""Registries of things that a configuration chooses by name alone, such as metrics.

metrics = Names[type[Metric]]("metric")
metrics.register("bleu", Bleu)

MetricName = Annotated[str, metrics]      # the type of a field
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from qkv.core.plugins import load_installed

T = TypeVar("T")


class Names(Generic[T]):
    """A registry by name; as metadata of `Annotated[str, ...]` it makes a field one of the names.

    A name is looked up when a value is checked, so one that is registered later is accepted everywhere.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._things: dict[str, T] = {}
        self._aliases: dict[str, str] = {}

    def register(self, name: str, thing: T, aliases: Sequence[str] = ()) -> None:
        """Add `thing`; `aliases` are old spellings of its name, which are replaced with a warning."""
        for taken in (name, *aliases):
            if taken in self._things or taken in self._aliases:
                raise ValueError(f"{self.what}: the name {taken!r} is registered twice")
        self._things[name] = thing
        self._aliases |= dict.fromkeys(aliases, name)

    def canonical(self, name: str) -> str:
        """The name that an alias stands for; any other name as it is."""
        if name in self._aliases:
            # Always from this line, so that Python shows it once however many callers there are.
            warnings.warn(f"the {self.what} {name} is now called {self._aliases[name]}", FutureWarning, stacklevel=1)
        return self.current(name)

    def current(self, name: str) -> str:
        """The same without a warning, for names in files written by earlier versions."""
        return self._aliases.get(name, name)

    def names(self) -> list[str]:
        return list(self._things)

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __contains__(self, name: object) -> bool:
        if name not in self._things and name not in self._aliases:
            load_installed()
        return name in self._things or name in self._aliases

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise KeyError(name)
        return self._things[self.canonical(name)]

    def get(self, name: str, default: T) -> T:
        """The thing of this name, or `default` if there is none."""
        if name not in self:
            return default
        return self[name]

    def _check(self, value: Any) -> str:
        if isinstance(value, str) and value in self:
            return self.canonical(value)
        raise PydanticCustomError("literal_error", "is not one of the names")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "enum": self.names()}
