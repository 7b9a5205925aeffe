"""Rows that occur more than once."""

import numpy as np

from qkv.data.arrays.repeats import count_repeated, hash_overlap, row_hashes
from qkv.data.overlap import Overlap

ROWS = np.arange(3000 * 4, dtype=np.int32).reshape(3000, 2, 2)
"""All different."""


def test_equal_rows_are_counted() -> None:
    rows = ROWS.copy()
    assert count_repeated(row_hashes(rows, 3000)) == 0
    rows[2999] = rows[0] = rows[7]
    assert count_repeated(row_hashes(rows, 3000)) == 2


def test_rows_of_another_array_are_found_however_they_lie_in_memory() -> None:
    train = row_hashes(ROWS, 3000)
    part = np.asfortranarray(np.concatenate([ROWS[5:7], -ROWS[5:8]]))
    assert hash_overlap(row_hashes(part, 5), train) == Overlap(pairs=2, sources=2, total=5)


def test_progress() -> None:
    calls: list[tuple[int, int | None]] = []
    row_hashes(ROWS, 3000, lambda *now: calls.append(now))
    assert calls == [(1024, 3000), (2048, 3000), (3000, 3000)]


def test_counts_are_those_of_sets() -> None:
    random = np.random.default_rng(0)
    part, train = (random.integers(0, 50, size, dtype=np.uint64) << np.uint64(58) for size in (40, 30))
    assert count_repeated(part) == 40 - len(set(part.tolist()))
    shared = sum(value in set(train.tolist()) for value in part.tolist())
    assert 0 < shared < 40
    assert hash_overlap(part, train) == Overlap(pairs=shared, sources=shared, total=40)
    assert hash_overlap(part, train[:0]).pairs == count_repeated(train[:0]) == 0
