"""Which engine is chosen, and what is said when there is none."""

import importlib.util
from pathlib import Path

import pytest

from qkv.decoding.engine import DecodeRequest
from qkv.decoding.engines import EngineName, Engines
from qkv.decoding.greedy import GreedyConfig
from qkv.decoding.model_set import ModelSet
from qkv.decoding.search import Constraints, searches
from qkv.errors import CorruptFolder, QkvError, UsageError
from qkv.files import new_folder
from tests.support.speaker import save_speaker, speaker

PLAIN = DecodeRequest(GreedyConfig(), 1, [Constraints()])
needs_ctranslate2 = pytest.mark.skipif(importlib.util.find_spec("ctranslate2") is None, reason="not installed")


def chosen(wanted: EngineName, request: DecodeRequest = PLAIN, models: int = 1) -> str:
    return Engines(ModelSet([speaker()] * models), wanted, 1).choose(request).name


def test_torch_does_everything() -> None:
    assert chosen("torch", models=2) == "torch"


@needs_ctranslate2
def test_auto_takes_the_fast_one_where_it_can() -> None:
    assert chosen("auto") == chosen("ctranslate2") == "ctranslate2"
    for request, models in (
        (DecodeRequest(searches["sample"](), 1, [Constraints()]), 1),
        (DecodeRequest(GreedyConfig(), 1, [Constraints(prefix=[7])]), 1),
        (PLAIN, 2),
    ):
        assert chosen("auto", request, models) == "torch"
        with pytest.raises(UsageError, match="the engine ctranslate2 cannot do this: "):
            chosen("ctranslate2", request, models)


def test_without_the_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert chosen("auto") == "torch"
    with pytest.raises(UsageError, match="it is not installed; pip install"):
        chosen("ctranslate2")


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with new_folder(tmp_path / "other", {"what": "tokenizers"}):
        pass
    with pytest.raises(CorruptFolder, match="holds no model"):
        ModelSet([tmp_path / "other"])
    with pytest.raises(QkvError, match="no such folder"):
        ModelSet([tmp_path / "none"])


def test_a_model_is_read_once_and_late(tmp_path: Path) -> None:
    models = ModelSet([save_speaker(tmp_path / "model")])
    assert len(models) == len(models.seals) == 1
    (tmp_path / "model" / "config.yaml").unlink()
    with pytest.raises(CorruptFolder, match="is missing"):
        models.loaded  # noqa: B018  # reading it is the test
