"""Batches of sentences of similar length, within a token budget."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def by_length(lengths: Sequence[int], rows: int, batch_tokens: int) -> list[list[int]]:
    """The numbers of the sentences, the longest first, cut so that sentences x rows x longest <= `batch_tokens`.

    `rows` is the number of hypotheses per sentence. A sentence that exceeds the budget is a batch of its own.
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
    """Chunks of `size` items, the last one shorter; reads no further than needed."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
