"""For any lengths, weights, seed and budget: nothing lost, nothing over the budget, nothing left to chance."""

from collections import Counter

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.data.batch import collate
from qkv.data.order import BatchPlan, Budget, epoch_plan, share
from qkv.data.store import CorpusRange, LengthArray
from qkv.text.special import SpecialIds

SPECIAL = SpecialIds()
LENGTH = st.integers(2, 50)
PAIRS = st.lists(st.tuples(LENGTH, LENGTH), min_size=1, max_size=200)
SEED = st.integers(0, 2**63)
EPOCH = st.integers(0, 1000)
IDS = st.lists(st.integers(5, 1000), max_size=12)


def sides(pairs: list[tuple[int, int]]) -> tuple[LengthArray, LengthArray]:
    both = np.array(pairs, dtype=np.uint32)
    return both[:, 0].copy(), both[:, 1].copy()


def batches(plan: BatchPlan) -> list[list[int]]:
    return [plan.batch(index).tolist() for index in range(len(plan))]


@given(PAIRS, SEED, EPOCH, st.integers(50, 500), st.none() | st.integers(1, 20))
def test_every_pair_once_within_the_budget(
    pairs: list[tuple[int, int]], seed: int, epoch: int, tokens: int, rows: int | None
) -> None:
    src, tgt = sides(pairs)
    plan = epoch_plan(src, tgt, [CorpusRange(0, len(pairs), 1.0)], seed, epoch, Budget(tokens, rows))
    found = batches(plan)
    assert sorted(pair for batch in found for pair in batch) == list(range(len(pairs)))
    for batch in found:
        assert batch
        assert len(batch) * max(int(src[batch].max()), int(tgt[batch].max())) <= tokens
        assert rows is None or len(batch) <= rows


@given(PAIRS, SEED, EPOCH, st.floats(0.01, 3))
def test_pure_function(pairs: list[tuple[int, int]], seed: int, epoch: int, weight: float) -> None:
    src, tgt = sides(pairs)
    plans = [epoch_plan(src, tgt, [CorpusRange(0, len(src), weight)], seed, epoch, Budget(100)) for _ in range(2)]
    assert batches(plans[0]) == batches(plans[1])


@given(PAIRS, SEED, EPOCH, st.floats(0.01, 4))
def test_weight_is_how_often_pairs_come(pairs: list[tuple[int, int]], seed: int, epoch: int, weight: float) -> None:
    src, tgt = sides(pairs)
    plan = epoch_plan(src, tgt, [CorpusRange(0, len(src), weight)], seed, epoch, Budget(100))
    counts = Counter(pair for batch in batches(plan) for pair in batch)
    assert all(int(weight) <= counts[pair] <= int(weight) + 1 for pair in range(len(src)))
    assert abs(sum(counts.values()) - weight * len(src)) <= 1


@given(st.integers(0, 40), st.integers(1, 9))
def test_ranks_part_a_batch(rows: int, world: int) -> None:
    shares = [share(np.arange(rows), rank, world).tolist() for rank in range(world)]
    assert sorted(row for part in shares for row in part) == list(range(rows))


@given(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=8))
def test_what_is_collated_can_be_read_back(pairs: list[tuple[list[int], list[int]]]) -> None:
    src_ids, tgt_ids = [src for src, _ in pairs], [tgt for _, tgt in pairs]
    batch = collate(src_ids, tgt_ids, SPECIAL, SPECIAL, range(len(pairs)))
    for row, (src, tgt) in enumerate(pairs):
        keep = batch.tgt_weight[row] > 0
        assert batch.src[row][batch.src_keep[row]].tolist() == [*src, SPECIAL.eos]
        assert batch.tgt_out[row][keep].tolist() == [*tgt, SPECIAL.eos]
        assert batch.tgt_in[row][keep].tolist() == [SPECIAL.bos, *tgt]
    assert bool((batch.src[~batch.src_keep] == SPECIAL.pad).all())
    assert bool((batch.tgt_out[batch.tgt_weight == 0] == SPECIAL.pad).all())
    assert batch.tgt_out.shape == batch.tgt_in.shape == batch.tgt_weight.shape


@given(st.lists(st.tuples(IDS, IDS), min_size=2, max_size=9))
def test_halves_make_the_whole(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collate([src for src, _ in pairs], [tgt for _, tgt in pairs], SPECIAL, SPECIAL, range(len(pairs)))
    first, second = batch.split()
    assert first.examples + second.examples == batch.examples
    assert torch.equal(torch.cat([first.src, second.src]), batch.src)
    assert first.num_tgt_tokens + second.num_tgt_tokens == batch.num_tgt_tokens
