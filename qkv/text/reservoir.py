"""A fair sample of a stream of any length, in bounded memory."""

import random
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def reservoir(items: Iterable[T], size: int) -> list[T]:
    """At most `size` of the items, each equally likely to stay; always the same ones (algorithm R, fixed seed)."""
    generator = random.Random(0)
    kept: list[T] = []
    for seen, item in enumerate(items):
        if seen < size:
            kept.append(item)
        elif (place := int(generator.random() * (seen + 1))) < size:
            kept[place] = item
    return kept
