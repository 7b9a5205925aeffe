"""What `check_data` finds in a corpus whose faults are known."""

import json
from collections.abc import Callable

import pytest

from qkv.core.errors import UsageError
from qkv.data.check import DataReport, check_data
from qkv.data.config import BatchConfig
from qkv.data.store import PairStore
from qkv.text.folder import TokenizerPair

MakeStore = Callable[..., PairStore]

TRAIN = [("w1 w2", "x1"), ("w1 w2", "x1"), ("w1 w2", "x2"), ("w3 new", "x3 x4 x5"), ("w7", "w7"), ("w8 w9 w1", "x1")]
DEV = [("w1 w2", "x1"), ("w1 w2", "x9"), ("w4", "x4"), ("w1", "w2 x1")]


@pytest.fixture
def report(make_store: MakeStore, tokenizers: TokenizerPair) -> DataReport:
    stores = {"train": make_store(TRAIN, "train"), "dev": make_store(DEV, "dev"), "test": make_store(DEV[2:], "test")}
    return check_data(stores, tokenizers, BatchConfig(tokens=16))


def test_sizes_and_lengths(report: DataReport) -> None:
    train = report.parts["train"]
    assert train.store.kept == 6
    assert train.src_lengths == {"min": 2, "5%": 2, "25%": 3, "median": 3, "75%": 3, "95%": 3, "99%": 3, "max": 4}
    assert (train.tgt_lengths["min"], train.tgt_lengths["max"]) == (2, 4)


def test_unknown_tokens(report: DataReport) -> None:
    train = report.parts["train"]
    assert train.src_unknown == pytest.approx(1 / 12)
    assert train.tgt_unknown == pytest.approx(1 / 8)


def test_duplicates_and_copies(report: DataReport) -> None:
    assert (report.parts["train"].duplicates, report.parts["train"].copies) == (1, 1)
    assert (report.parts["dev"].duplicates, report.parts["dev"].copies) == (0, 0)


def test_overlap_with_train(report: DataReport) -> None:
    assert (report.overlaps["dev"].pairs, report.overlaps["dev"].sources) == (1, 2)
    assert (report.overlaps["test"].pairs, report.overlaps["test"].sources) == (0, 0)


def test_batches_and_samples(report: DataReport) -> None:
    assert report.batches >= 1
    assert 0 <= report.padding < 1
    assert [sample.pair for sample in report.samples] == [0, 1, 2, 3, 5]
    assert report.samples[3].src == ["w3", "<unk>", "</s>"]


def test_for_people_and_for_programs(report: DataReport) -> None:
    text = report.render()
    assert "train: 6 of 6 pairs kept" in text
    assert "dev and train: 1 of 4 pairs of dev are in train, 2 with the same source" in text
    assert "1 exact duplicates, 1 pairs with target = source" in text
    assert "w3 <unk> </s>" in text
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["parts"]["train"]["store"]["kept"] == 6
    assert plain["overlaps"]["dev"] == {"pairs": 1, "sources": 2, "total": 4}


def test_progress(make_store: MakeStore, tokenizers: TokenizerPair) -> None:
    calls: list[tuple[int, int | None]] = []
    stores = {"train": make_store(TRAIN, "train"), "dev": make_store(DEV, "dev")}
    check_data(stores, tokenizers, BatchConfig(tokens=16), progress=lambda *now: calls.append(now))
    # Train once more at the end: dev is compared with it.
    assert calls == [(6, 16), (10, 16), (16, 16)]


def test_hundred_thousand_duplicates(make_store: MakeStore, tokenizers: TokenizerPair) -> None:
    report = check_data({"train": make_store([("w1", "x1")] * 100_000)}, tokenizers, BatchConfig())
    assert report.parts["train"].duplicates == 99_999
    assert report.padding == 0


def test_budget_too_small(make_store: MakeStore, tokenizers: TokenizerPair) -> None:
    with pytest.raises(UsageError, match=r"batch\.tokens is 2"):
        check_data({"train": make_store(TRAIN)}, tokenizers, BatchConfig(tokens=2))
