"""Finds the override that caused a problem, if it is not in the file."""

from collections.abc import Sequence
from typing import Any

from qkv.config.base import WRITTEN_BY_QKV, Config
from qkv.config.explain import Problem, checked, dotted
from qkv.config.overrides import origin_text, trace_overrides
from qkv.core.errors import UsageError


class Blame:
    """`changed` is `data` with the overrides applied."""

    def __init__(self, cls: type[Config], data: dict[str, Any], overrides: Sequence[str]) -> None:
        self.changed, self._origins = trace_overrides(data, overrides)
        self._cls, self._data, self._overrides = cls, data, overrides

    def override(self, problem: Problem) -> str | None:
        """How a message names the override that caused the problem; None: no override did."""
        if guilty := self._inside(problem):
            return _named(guilty, problem)
        around = (problem.loc[:length] for length in range(len(problem.loc), 0, -1))
        origin = next((self._origins[loc] for loc in around if loc in self._origins), None)
        return None if origin is None else _named([origin], problem)

    def _inside(self, problem: Problem) -> list[str]:
        """The overrides of this key, or of keys inside it, without which there would be no problem."""
        size = len(problem.loc)
        inside = list(dict.fromkeys(text for loc, text in self._origins.items() if loc[:size] == problem.loc))
        needed = [text for text in inside if not self._remains(problem, without=[text])]
        return needed or ([] if self._remains(problem, without=inside) else inside)

    def _remains(self, problem: Problem, without: list[str]) -> bool:
        try:
            data, _ = trace_overrides(self._data, [text for text in self._overrides if text not in without])
        except UsageError:  # another override depends on these
            return True
        found = checked(self._cls, data, WRITTEN_BY_QKV)
        return isinstance(found, list) and problem in found


def _named(overrides: list[str], problem: Problem) -> str:
    text = " and ".join([origin_text(overrides[0]), *overrides[1:]])
    keys = [override.partition("=")[0].strip() for override in overrides]
    place = dotted(problem.loc)
    return text if keys == [place] or not place else f"{text}: {place}"
