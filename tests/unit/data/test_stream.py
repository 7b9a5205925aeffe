"""Any batch by its number."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.data.batch import Batch
from qkv.data.config import BatchConfig
from qkv.data.store import PairLimits, PairStore
from qkv.data.stream import BatchStream
from qkv.text.folder import TokenizerPair
from qkv.text.special import SpecialIds

MakeStore = Callable[..., PairStore]

PAIRS = [(" ".join(f"w{(i + k) % 100}" for k in range(i % 9 + 1)), f"x{i % 100} x1") for i in range(300)]


class LongerWords:
    """A tokenizer whose sampling shows: the ids of the text, and after them up to three ids 110 at random."""

    special = SpecialIds()

    def __init__(self, always: int = 0) -> None:
        self.always = always

    def __len__(self) -> int:
        return 120

    def normalize(self, text: str) -> str:
        return text

    def encode(self, text: str) -> list[int]:
        return [5 + int(word[1:]) for word in text.split()]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def sample(self, text: str, random: random.Random) -> list[int]:
        return self.encode(text) + [110] * (self.always + random.randrange(4))

    def unknowns(self, text: str) -> list[str]:
        return []

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        return " ".join(map(str, ids))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [str(i) for i in ids]

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    def definition(self) -> dict[str, Any]:
        return {}


@pytest.fixture
def store(make_store: MakeStore) -> PairStore:
    return make_store(PAIRS)


def equal(one: Batch, other: Batch) -> bool:
    names = ("src", "src_keep", "tgt_in", "tgt_out", "tgt_weight")
    return one.examples == other.examples and all(torch.equal(getattr(one, n), getattr(other, n)) for n in names)


def test_an_epoch_has_every_pair_once(store: PairStore, tokenizers: TokenizerPair) -> None:
    stream = BatchStream(store, tokenizers, BatchConfig(tokens=100), seed=1)
    seen = []
    for index in range(len(stream.plan(0))):
        batch = stream.batch(0, index)
        seen += batch.examples
        assert batch.src.numel() <= 100
        assert batch.tgt_out.numel() <= 100
        for row, pair in enumerate(batch.examples):
            assert tokenizers.src.decode(batch.src[row].tolist()) == PAIRS[pair][0]
            assert tokenizers.tgt.decode(batch.tgt_out[row].tolist()) == PAIRS[pair][1]
            assert int(batch.src_keep[row].sum()) == store.src_len[pair]
            assert int(batch.tgt_weight[row].sum()) == store.tgt_len[pair]
    assert sorted(seen) == list(range(300))


@pytest.mark.parametrize("sampling", [False, True])
def test_resuming_in_the_middle_is_random_access(store: PairStore, sampling: bool) -> None:
    tokenizer = LongerWords()
    pair = TokenizerPair(tokenizer, tokenizer)
    straight = BatchStream(store, pair, BatchConfig(tokens=100), seed=3, sampling=sampling)
    order = [(epoch, index) for epoch in range(2) for index in range(len(straight.plan(epoch)))]
    batches = {place: straight.batch(*place) for place in order}
    resumed = BatchStream(store, pair, BatchConfig(tokens=100), seed=3, sampling=sampling)
    for place in [*order[len(order) // 3 :], *reversed(order)]:
        assert equal(resumed.batch(*place), batches[place])


@pytest.mark.parametrize("world", [2, 3, 50])
def test_ranks_share_the_batches_of_one(store: PairStore, tokenizers: TokenizerPair, world: int) -> None:
    stream = BatchStream(store, tokenizers, BatchConfig(tokens=100), seed=1)
    for index in range(len(stream.plan(0))):
        whole = stream.batch(0, index)
        shares = [stream.batch(0, index, rank, world) for rank in range(world)]
        assert sorted(pair for part in shares for pair in part.examples) == sorted(whole.examples)
        assert sum(part.num_tgt_tokens for part in shares) == whole.num_tgt_tokens


class TestSampling:
    def extra(self, stream: BatchStream, epoch: int) -> dict[int, int]:
        """How many ids 110 each source got."""
        batches = (stream.batch(epoch, index) for index in range(len(stream.plan(epoch))))
        return {pair: int((b.src[row] == 110).sum()) for b in batches for row, pair in enumerate(b.examples)}

    def stream(self, store: PairStore, seed: int, budget: int = 100, always: int = 0) -> BatchStream:
        tokenizer = LongerWords(always)
        return BatchStream(store, TokenizerPair(tokenizer, tokenizer), BatchConfig(tokens=budget), seed, sampling=True)

    def test_anew_each_epoch_and_seed(self, store: PairStore) -> None:
        base = self.extra(self.stream(store, 1), 0)
        assert len(set(base.values())) > 1
        assert base != self.extra(self.stream(store, 1), 1)
        assert base != self.extra(self.stream(store, 2), 0)

    def test_belongs_to_the_pair_not_to_the_batch(self, store: PairStore) -> None:
        assert self.extra(self.stream(store, 1, budget=100), 0) == self.extra(self.stream(store, 1, budget=40), 0)

    def test_sample_beyond_the_limit_gives_way(self, make_store: MakeStore) -> None:
        store = make_store(PAIRS, limits=PairLimits(12, 12))
        extra = self.extra(self.stream(store, 1, always=3), 0)
        for pair, count in extra.items():
            assert int(store.src_len[pair]) + count <= 12
            assert count == 0 or count >= 3
        assert 0 in extra.values()
