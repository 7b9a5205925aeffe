"""The keys of the data configuration."""

from pathlib import Path

import pytest

from qkv.core.errors import ConfigError
from qkv.data.config import BatchConfig, PairsConfig
from qkv.data.readers import TextCorpus, TsvCorpus

TEXT = {"kind": "text", "src": "a.src", "tgt": "a.tgt"}
TSV = {"kind": "tsv", "path": "a.tsv", "weight": 0.5}


def test_one_corpus_or_a_list() -> None:
    one = PairsConfig.model_validate({"train": TEXT})
    assert one == PairsConfig.model_validate({"train": [TEXT]})
    assert one.train == (TextCorpus(src=Path("a.src"), tgt=Path("a.tgt")),)
    both = PairsConfig.model_validate({"train": [TEXT, TSV]})
    assert isinstance(both.train[1], TsvCorpus)
    assert both.train[1].weight == 0.5


def test_what_is_dumped_reads_back_equal() -> None:
    config = PairsConfig.model_validate({"train": [TEXT, TSV], "dev": TEXT, "root": "/somewhere"})
    assert PairsConfig.model_validate(config.model_dump(mode="json")) == config
    assert BatchConfig.model_validate(BatchConfig(pairs=3).model_dump()) == BatchConfig(pairs=3)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"train": []},
        {"train": {"kind": "xls", "path": "a"}},
        {"train": {**TEXT, "path": "a"}},
        {"train": {**TEXT, "weight": 0}},
        {"train": {**TEXT, "weight": float("nan")}},
        {"train": {**TSV, "src_column": -1}},
        {"train": TEXT, "dev": TEXT, "holdout": 5},
        {"train": TEXT, "holdout": 0},
        {"train": TEXT, "max_src_tokens": 1},
        {"train": TEXT, "invalid_utf8": "ignore"},
        {"train": TEXT, "unknown": 1},
    ],
)
def test_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        PairsConfig.model_validate(wrong)


@pytest.mark.parametrize("wrong", [{"tokens": 1}, {"pairs": 0}, {"tokens": "many"}])
def test_batch_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        BatchConfig.model_validate(wrong)
