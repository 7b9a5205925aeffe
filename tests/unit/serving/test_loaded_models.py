"""Models in the memory of a worker: loaded when they are first used, the least recently used ones unloaded."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.core.errors import QkvError
from qkv.serving.workers.jobs import ModelSettings
from qkv.serving.workers.work import MOST_CHARACTERS, MOST_TRANSLATORS, LoadedModels, fitting_together
from tests.support.server import MODEL


@pytest.fixture
def copies(tmp_path: Path) -> list[ModelSettings]:
    for name in "abc":
        shutil.copytree(MODEL, tmp_path / name)
    return [ModelSettings(tmp_path / name, "torch") for name in "abc"]


def test_the_least_recently_used_model_makes_room(copies: list[ModelSettings]) -> None:
    models = LoadedModels(most=2)
    first, second = models.translator(copies[0]), models.translator(copies[1])
    assert models.translator(copies[0]) is first
    models.translator(copies[2])
    assert len(models) == 2
    assert models.translator(copies[0]) is first
    assert models.translator(copies[1]) is not second


def test_memory_is_bounded_but_one_model_is_always_kept(copies: list[ModelSettings]) -> None:
    size = sum(path.stat().st_size for path in copies[0].folder.iterdir() if path.is_file()) / 1e6
    models = LoadedModels(most=8, megabytes=2.5 * size)
    kept = [models.translator(each) for each in copies]
    assert len(models) == 2
    assert models.translator(copies[2]) is kept[2]
    tiny = LoadedModels(most=8, megabytes=size / 2)
    only = tiny.translator(copies[0])
    assert tiny.translator(copies[0]) is only
    tiny.translator(copies[1])
    assert len(tiny) == 1


def test_searches_share_a_model_and_are_bounded(copies: list[ModelSettings]) -> None:
    models = LoadedModels()
    first = models.translator(copies[0])
    for length in range(MOST_TRANSLATORS + 3):
        settings = ModelSettings(copies[0].folder, "torch", ("search.kind=greedy", f"search.max_length={length}"))
        assert models.translator(settings).models is first.models
    assert len(models) == 1


def test_a_model_that_cannot_be_loaded_takes_no_place(tmp_path: Path) -> None:
    models = LoadedModels()
    with pytest.raises(QkvError):
        models.translator(ModelSettings(tmp_path, "torch"))
    assert len(models) == 0


@given(st.lists(st.integers(0, 2 * MOST_CHARACTERS).map("a".__mul__), max_size=12))
def test_texts_that_are_encoded_together_fit_into_memory(texts: list[str]) -> None:
    parts = list(fitting_together(texts))
    assert [text for part in parts for text in part] == texts
    assert all(len(part) == 1 or len(part) * max(map(len, part)) <= MOST_CHARACTERS for part in parts if part)
