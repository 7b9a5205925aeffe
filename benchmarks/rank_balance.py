"""How equal the work of the ranks is: each batch of an epoch of a recipe, parted among 2, 4 and 8 of them.

    python benchmarks/rank_balance.py multi30k-en-de data.root=data/multi30k [batch.tokens=4096]

Counted are positions, padding included, of source and target: what a rank computes. An update takes as long as its
slowest rank. `in turns` deals out the rows of a batch one by one; `by length` is what training does (qkv/data/order).
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from qkv.data.order import BatchPlan, Indices, balanced_share, share
from qkv.data.store import LengthArray, PairStore
from qkv.data.stream import BatchStream
from qkv.recipes import load_recipe
from qkv.training.progress import SilentTrainingReporter
from qkv.training.run.folder import RunFolder
from qkv.training.setup.prepare import prepare

Share = Callable[[Indices, LengthArray, LengthArray, int, int], Indices]
WORLDS = (2, 4, 8)


def in_turns(rows: Indices, src: LengthArray, tgt: LengthArray, rank: int, world: int) -> Indices:
    return share(rows, rank, world)


def positions(plan: BatchPlan, store: PairStore, world: int, part: Share) -> tuple[int, float]:
    """Of the slowest rank and of the mean of all ranks, summed over the batches."""
    slowest, mean = 0, 0.0
    for index in range(len(plan)):
        batch = plan.batch(index)
        shares = [part(batch, store.src_len, store.tgt_len, rank, world) for rank in range(world)]
        costs = [_cost(own, store) for own in shares]
        slowest, mean = slowest + max(costs), mean + float(np.mean(costs))
    return slowest, mean


def _cost(rows: Indices, store: PairStore) -> int:
    longest = [int(lengths[rows].max(initial=0)) for lengths in (store.src_len, store.tgt_len)]
    return len(rows) * sum(longest)


def main() -> None:
    recipe = load_recipe(sys.argv[1], sys.argv[2:])
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(recipe, RunFolder(Path(folder)), SilentTrainingReporter().counting)
        store = prepared.train
        assert isinstance(store, PairStore)
        plan = BatchStream(store, prepared.tokenizers, recipe.batch, recipe.seed).plan(0)
        tokens = store.num_tokens
        print(f"{len(store):,} pairs, {tokens:,} tokens, {len(plan):,} batches of {recipe.batch.tokens:,}")
        print("ranks  parted     slowest / mean  slowest / tokens of a rank  padding")
        for world in WORLDS:
            for name, part in (("in turns", in_turns), ("by length", balanced_share)):
                slowest, mean = positions(plan, store, world, part)
                padding = 1 - tokens / (mean * world)
                print(f"{world:5}  {name:9}  {slowest / mean:14.3f}  {slowest * world / tokens:26.3f}  {padding:7.1%}")


if __name__ == "__main__":
    main()
