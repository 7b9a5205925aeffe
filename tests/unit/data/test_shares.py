"""Who computes which rows of a batch: every row once, and no rank much longer than the others."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from qkv.data.order import Indices, balanced_share
from qkv.data.store import LengthArray


def lengths(rows: int, seed: int, longest: int = 40) -> tuple[LengthArray, LengthArray]:
    draw = np.random.default_rng(seed)
    return draw.integers(1, longest, rows).astype(np.uint32), draw.integers(1, longest, rows).astype(np.uint32)


def cost(rows: Indices, src: LengthArray, tgt: LengthArray) -> int:
    return len(rows) * int(src[rows].max(initial=0) + tgt[rows].max(initial=0))


@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 5, 60])
def test_shares_are_the_batch(count: int, world: int) -> None:
    src, tgt = lengths(100, seed=count)
    rows = np.random.default_rng(world).permutation(100)[:count]
    shares = [balanced_share(rows, src, tgt, rank, world).tolist() for rank in range(world)]
    assert sorted(row for part in shares for row in part) == sorted(rows.tolist())
    assert shares[0]


def test_one_rank_takes_the_batch_as_it_is() -> None:
    src, tgt = lengths(9, seed=1)
    rows = np.array([4, 2, 8, 0])
    assert balanced_share(rows, src, tgt, 0, 1).tolist() == [4, 2, 8, 0]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("world", [2, 3, 4])
def test_no_other_cut_is_cheaper(world: int, seed: int) -> None:
    src, tgt = lengths(9, seed)
    rows = np.arange(9)
    order = np.array(sorted(rows.tolist(), key=lambda row: (-int(src[row]), -int(tgt[row]))))
    cuts = [[0, *cut, 9] for parts in range(1, world + 1) for cut in combinations(range(1, 9), parts - 1)]
    best = min(max(cost(order[a:b], src, tgt) for a, b in pairwise(cut)) for cut in cuts)
    shares = [balanced_share(rows, src, tgt, rank, world) for rank in range(world)]
    assert max(cost(part, src, tgt) for part in shares) == best


def test_long_rows_go_to_a_rank_that_gets_fewer_of_them() -> None:
    src = np.array([80, 40, 40, 20, 20, 20, 20], np.uint32)
    shares = [balanced_share(np.arange(7), src, src, rank, 3).tolist() for rank in range(3)]
    assert shares == [[0], [1, 2], [3, 4, 5, 6]]
