"""The keys in which two configurations differ."""

from typing import Any

from qkv.config.base import Config


def differing_keys(some: Config, other: Config) -> list[str]:
    """The keys whose values differ, such as `model.num_heads`; a group of a different kind is one key."""
    return [".".join(keys) for keys in _differing(some.model_dump(mode="json"), other.model_dump(mode="json"), ())]


def _differing(some: Any, other: Any, at: tuple[str, ...]) -> list[tuple[str, ...]]:
    if some == other:
        return []
    if not (isinstance(some, dict) and isinstance(other, dict) and some.keys() == other.keys()):
        return [at]
    return [keys for key in some for keys in _differing(some[key], other[key], (*at, key))]
