"""The plan of an epoch: every pair as often as its weight says, within the budget, whatever else happens."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from qkv.core.errors import UsageError
from qkv.data.order import BatchPlan, Budget, epoch_plan, share
from qkv.data.store import CorpusRange, LengthArray

BUDGET = Budget(512)


def lengths(size: int, seed: int = 0, longest: int = 40) -> tuple[LengthArray, LengthArray]:
    random = np.random.default_rng(seed)
    src = random.integers(2, longest, size, dtype=np.uint32)
    tgt = np.clip(src.astype(np.int64) + random.integers(-4, 5, size), 2, longest).astype(np.uint32)
    return src, tgt


def plan_of(
    size: int, seed: int = 1, epoch: int = 0, budget: Budget = BUDGET, weights: tuple[float, ...] = (1.0,)
) -> BatchPlan:
    bounds = np.linspace(0, size, len(weights) + 1).astype(int).tolist()
    ranges = [CorpusRange(bounds[i], bounds[i + 1], weight) for i, weight in enumerate(weights)]
    return epoch_plan(*lengths(size), ranges, seed, epoch, budget)


def pairs_of(plan: BatchPlan) -> list[list[int]]:
    return [plan.batch(i).tolist() for i in range(len(plan))]


def test_every_pair_once() -> None:
    seen = sorted(pair for batch in pairs_of(plan_of(2000)) for pair in batch)
    assert seen == list(range(2000))


def test_within_the_budget_and_nearly_full() -> None:
    src, tgt = lengths(2000)
    batches = pairs_of(plan_of(2000, budget=Budget(512, pairs=25)))
    sizes = [len(batch) * int(max(src[batch].max(), tgt[batch].max())) for batch in batches]
    assert max(sizes) <= 512
    assert max(len(batch) for batch in batches) == 25
    assert np.mean([size > 400 or len(batch) == 25 for size, batch in zip(sizes, batches, strict=True)]) > 0.9


def test_function_of_seed_and_epoch() -> None:
    assert pairs_of(plan_of(500, 1, 3)) == pairs_of(plan_of(500, 1, 3))
    assert pairs_of(plan_of(500, 1, 3)) != pairs_of(plan_of(500, 1, 4))
    assert pairs_of(plan_of(500, 1, 3)) != pairs_of(plan_of(500, 2, 3))
    assert pairs_of(plan_of(500, 0, 1)) != pairs_of(plan_of(500, 1, 0))


def test_golden_order() -> None:
    """A change here breaks the resuming of runs that older versions began."""
    src, tgt = np.array([2, 9, 4, 7, 3, 8], np.uint32), np.array([3, 8, 4, 7, 2, 9], np.uint32)
    plan = epoch_plan(src, tgt, [CorpusRange(0, 6, 1.0)], 7, 2, Budget(18))
    assert pairs_of(plan) == [[5], [4, 0, 2], [3, 1]]


def test_same_in_another_process_with_another_hash_seed() -> None:
    script = (
        "import numpy as np; from qkv.data.order import *; from qkv.data.store import CorpusRange\n"
        "n = np.arange(2, 302, dtype=np.uint32) % 30 + 2\n"
        "plan = epoch_plan(n, n[::-1].copy(), [CorpusRange(0, 300, 1.5)], 5, 6, Budget(100))\n"
        "print([plan.batch(i).tolist() for i in range(len(plan))])"
    )
    outputs = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
        )
        outputs.add(run.stdout)
    assert len(outputs) == 1


def test_batches_are_shuffled_and_mixed() -> None:
    src, tgt = lengths(4000)
    first, second = pairs_of(plan_of(4000, epoch=0)), pairs_of(plan_of(4000, epoch=1))
    longest = [int(max(src[batch].max(), tgt[batch].max())) for batch in first]
    assert longest != sorted(longest)
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3
    common = [max(len(set(batch) & set(other)) / len(batch) for other in second) for batch in first]
    assert np.mean(common) < 0.8


def test_weights() -> None:
    counts = Counter(pair for batch in pairs_of(plan_of(300, weights=(1.0, 2.0, 0.25))) for pair in batch)
    assert [counts[i] for i in range(100)] == [1] * 100
    assert [counts[i] for i in range(100, 200)] == [2] * 100
    assert sum(counts[i] for i in range(200, 300)) == 25
    assert max(counts[i] for i in range(200, 300)) == 1


@pytest.mark.parametrize(("weight", "epochs"), [(0.25, 4), (1.5, 2), (0.1, 10)])
def test_fraction_takes_another_part_each_epoch(weight: float, epochs: int) -> None:
    counts = Counter(
        pair
        for epoch in range(epochs)
        for batch in pairs_of(plan_of(200, epoch=epoch, weights=(weight,)))
        for pair in batch
    )
    assert [counts[i] for i in range(200)] == [round(weight * epochs)] * 200


def test_tiny_fraction_is_at_least_one_pair() -> None:
    assert sum(map(len, pairs_of(plan_of(10, weights=(0.001,))))) == 1


def test_corpus_without_usable_pairs() -> None:
    src, tgt = lengths(10)
    ranges = [CorpusRange(0, 0, 0.5), CorpusRange(0, 10, 1.0), CorpusRange(10, 10, 1.0)]
    assert sum(map(len, pairs_of(epoch_plan(src, tgt, ranges, 0, 0, Budget(100))))) == 10


def test_pair_longer_than_the_budget() -> None:
    with pytest.raises(UsageError, match=r"batch\.tokens is 30, but the longest pair has 40 tokens; raise"):
        plan_of(500, budget=Budget(30))


def test_very_long_pairs_are_sorted_too() -> None:
    src = np.array([2, 100_000, 40_000, 3], np.uint32)
    plan = epoch_plan(src, src[::-1].copy(), [CorpusRange(0, 4, 1.0)], 0, 0, Budget(250_000))
    assert sorted(pair for batch in pairs_of(plan) for pair in batch) == [0, 1, 2, 3]


def test_index_out_of_range() -> None:
    plan = plan_of(50)
    for index in (-1, len(plan)):
        with pytest.raises(IndexError):
            plan.batch(index)


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_shares_are_the_batch(world: int) -> None:
    rows = np.arange(5)
    shares = [share(rows, rank, world).tolist() for rank in range(world)]
    assert sorted(row for part in shares for row in part) == rows.tolist()
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_padding_counts_every_position() -> None:
    src, tgt = lengths(500)
    plan = plan_of(500)
    positions = sum(len(b) * int(n[b].max()) for b in pairs_of(plan) for n in (src, tgt))
    assert plan.padding(src, tgt) == pytest.approx(1 - (int(src.sum()) + int(tgt.sum())) / positions)


MULTI30K = Path(os.environ.get("QKV_DATA", "data")) / "multi30k"


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="the corpus is not free to distribute; QKV_DATA names its folder")
def test_little_padding_on_multi30k() -> None:
    folder = MULTI30K
    sides = [(folder / name).read_bytes().split(b"\n")[:-1] for name in ("train.en", "train.de")]
    src, tgt = (np.array([len(line.split()) + 1 for line in side], np.uint32) for side in sides)
    plan = epoch_plan(src, tgt, [CorpusRange(0, len(src), 1.0)], 1, 0, Budget(4096))
    assert plan.padding(src, tgt) < 0.08


def test_a_curriculum_gives_the_pairs_up_to_a_length() -> None:
    src, tgt = lengths(500)
    ranges = [CorpusRange(0, 500, 1.0)]
    batches = pairs_of(epoch_plan(src, tgt, ranges, 1, 0, BUDGET, limit=12))
    found = sorted(pair for batch in batches for pair in batch)
    assert found == np.flatnonzero(np.maximum(src, tgt) <= 12).tolist()
    everything = epoch_plan(src, tgt, ranges, 1, 0, BUDGET, limit=1000)
    assert pairs_of(everything) == pairs_of(epoch_plan(src, tgt, ranges, 1, 0, BUDGET))


def test_a_curriculum_without_a_pair_is_refused() -> None:
    with pytest.raises(UsageError, match=r"epoch 1 has no pair of at most 1 tokens; raise batch\.curriculum\.start"):
        epoch_plan(*lengths(500), [CorpusRange(0, 500, 1.0)], 1, 0, BUDGET, limit=1)
