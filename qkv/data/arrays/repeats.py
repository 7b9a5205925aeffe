"""Rows of arrays that occur more than once, known by 64-bit hashes of their bytes."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from qkv.data.arrays.stored import Array
from qkv.data.build import CountProgress
from qkv.data.overlap import Overlap

Hashes = npt.NDArray[np.uint64]
PROGRESS_EVERY = 1024


def row_hashes(rows: Iterable[Array], count: int, progress: CountProgress = lambda done, total: None) -> Hashes:
    """The hash of each of `count` rows, of which one at a time is in memory."""
    found = np.empty(count, np.uint64)
    for place, row in enumerate(rows):
        found[place] = int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "little")
        if (place + 1) % PROGRESS_EVERY == 0 or place + 1 == count:
            progress(place + 1, count)
    return found


# Sorting takes one copy of the hashes; np.unique and np.isin take several.


def count_repeated(hashes: Hashes) -> int:
    """How many are equal to an earlier one."""
    ordered = np.sort(hashes)
    return int((ordered[1:] == ordered[:-1]).sum())


def hash_overlap(part: Hashes, train: Hashes) -> Overlap:
    """How many of `part` are in `train`, too."""
    ordered = np.sort(train)
    places = np.searchsorted(ordered, part)
    # Those above all of train have no place in it.
    shared = int((ordered[places[places < len(ordered)]] == part[places < len(ordered)]).sum())
    return Overlap(pairs=shared, sources=shared, total=len(part))
