"""Sentences of like length together, in batches that fit the memory."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def by_length(lengths: Sequence[int], rows: int, batch_tokens: int) -> list[list[int]]:
    """The numbers of the sentences, the longest first, cut so that sentences x rows x longest <= `batch_tokens`.

    `rows` is how many hypotheses a sentence has at once. A sentence that is too long by itself stands alone.
    """
    batches: list[list[int]] = []
    longest = 0
    for number in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not batches or (len(batches[-1]) + 1) * rows * longest > batch_tokens:
            batches.append([])
            longest = lengths[number]
        batches[-1].append(number)
    return batches


def in_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """`size` items at a time, the last time what is left; reads no further than it must."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
