"""A fair sample of a stream of any length, in bounded memory."""

import random
from collections.abc import Iterable


def reservoir(texts: Iterable[str], size: int) -> list[str]:
    """At most `size` of the texts, each equally likely to stay; always the same ones (algorithm R, fixed seed)."""
    generator = random.Random(0)
    kept: list[str] = []
    for seen, text in enumerate(texts):
        if seen < size:
            kept.append(text)
        elif (place := int(generator.random() * (seen + 1))) < size:
            kept[place] = text
    return kept
