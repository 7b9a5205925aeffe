"""Batches that fit the memory, whatever the lengths."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from qkv.data.batching import by_length, in_chunks


@given(st.lists(st.integers(1, 50)), st.integers(1, 8), st.integers(1, 300))
def test_every_sentence_once_and_no_batch_too_large(lengths: list[int], rows: int, batch_tokens: int) -> None:
    batches = by_length(lengths, rows, batch_tokens)
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    in_order = [lengths[number] for batch in batches for number in batch]
    assert in_order == sorted(in_order, reverse=True)
    for place, batch in enumerate(batches, start=1):
        size = rows * max(lengths[number] for number in batch)
        assert len(batch) == 1 or len(batch) * size <= batch_tokens
        # No smaller than it must be.
        assert place == len(batches) or (len(batch) + 1) * size > batch_tokens


def test_chunks_read_no_further_than_they_must() -> None:
    read = []

    def numbers() -> Iterator[int]:
        for number in range(7):
            read.append(number)
            yield number

    chunks = in_chunks(numbers(), 3)
    assert next(chunks) == [0, 1, 2]
    assert read == [0, 1, 2]
    assert list(chunks) == [[3, 4, 5], [6]]
    assert list(in_chunks([], 3)) == []
