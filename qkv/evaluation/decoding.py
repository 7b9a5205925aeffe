"""Records how the outputs of a model were decoded, so that a score can be reproduced: settings, and what was cut."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qkv.text.unknown.count import UnknownCount

SOURCE_KEY = "max_src_tokens"


@dataclass(frozen=True)
class Decoding:
    """The decoding settings of one model, and counts of what was cut."""

    engine: str
    search: dict[str, Any]
    """Every setting, the limits of the model filled in."""
    outputs: int
    outputs_cut: int
    """Outputs that reached the length limit before END."""
    sources_cut: int
    """Sources that were truncated because they are too long for the model."""
    sources_split: int
    """Sources that were translated in parts."""
    unknown: UnknownCount = field(default_factory=UnknownCount)
    """Words of the sources that are not in the vocabulary."""

    @property
    def settings(self) -> str:
        """The overrides that reproduce the search."""
        named = sorted(flat(self.search), key=lambda item: item[0] != "kind")
        return " ".join(f"search.{key}={value}" for key, value in named if value is not None)

    @property
    def remarks(self) -> list[str]:
        """Warnings, without a full stop; empty if nothing was cut or unknown."""
        said = [
            (self.outputs_cut, f"outputs were cut at {self._limit}; {self._limit_keys} sets another limit"),
            (self.sources_cut, f"sources lost their end; {SOURCE_KEY} or the model allows no more"),
            (self.sources_split, f"sources were translated in parts; {SOURCE_KEY} or the model allows no more at once"),
            (self.unknown.texts, f"sources {self.unknown.remark}"),
        ]
        return [f"{count:,} of {self.outputs:,} {what}" for count, what in said if count]

    @property
    def _limit_keys(self) -> str:
        """Of two limits the smaller one holds, so each of the keys alone may not be enough."""
        factor, most = self.search.get("max_factor"), self.search.get("max_length")
        if factor is None:
            return "search.max_length"
        return "search.max_factor" if most is None else "search.max_factor or search.max_length"

    @property
    def _limit(self) -> str:
        factor, extra, most = (self.search.get(key) for key in ("max_factor", "max_extra", "max_length"))
        if factor is None:
            return f"{most:,} tokens"
        return f"{factor:g} x source + {extra} tokens" + (f" (at most {most:,})" if most is not None else "")

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "engine": self.engine,
            "search": self.search,
            "outputs_cut": {"count": self.outputs_cut, "key": self._limit_keys},
            "sources_cut": {"count": self.sources_cut, "key": SOURCE_KEY},
            "sources_split": {"count": self.sources_split, "key": SOURCE_KEY},
            "sources_unknown": {"count": self.unknown.texts, "words": dict(self.unknown.pieces.most_common())},
        }


@dataclass(frozen=True)
class SystemOutputs:
    """The outputs of a system, and how they were decoded if it is a model."""

    texts: list[str]
    decoding: Decoding | None = None


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of nested settings, joined by dots."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
