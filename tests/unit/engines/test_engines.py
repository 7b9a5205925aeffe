"""Which engine is chosen, and what is said when there is none."""

import gc
import importlib.util
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import new_folder
from qkv.engines.base import DecodeRequest
from qkv.engines.choose import Engines
from qkv.engines.fast_engines import EngineName
from qkv.engines.model_set import ModelSet
from qkv.engines.torch_engine import TorchEngine
from qkv.export import ctranslate2 as fast_export
from qkv.search.base import Constraints, SearchConfig, searches
from qkv.search.greedy import GreedyConfig
from qkv.text import SPECIAL
from tests.support.speaker import save_speaker, speaker

PLAIN = DecodeRequest(GreedyConfig(), 1, [Constraints()])


def engines(wanted: EngineName, models: int = 1, longest: int | None = 1024, **changes: Any) -> Engines:
    return Engines(ModelSet([speaker(**changes)] * models), wanted, 1, longest)


def chosen(wanted: EngineName, request: DecodeRequest = PLAIN, models: int = 1) -> str:
    return engines(wanted, models).choose(request).name


def test_torch_does_everything() -> None:
    assert chosen("torch", models=2) == "torch"


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


@pytest.mark.parametrize(
    ("longest", "search", "reason"),
    [
        (None, GreedyConfig(max_length=5), "it reads 4,096 tokens at most"),
        (4097, GreedyConfig(max_length=5), "it reads 4,096 tokens at most"),
        (4096, GreedyConfig(max_length=5), None),
        (1024, GreedyConfig(max_factor=4.0, max_extra=1), "it writes 4,096 tokens at most"),
        (1024, GreedyConfig(max_factor=4.0, max_extra=0), None),
    ],
)
def test_auto_never_cuts_what_torch_would_not(longest: int | None, search: SearchConfig, reason: str | None) -> None:
    """The exported table of positions has an end where the model has none."""
    request = DecodeRequest(search, 1, [Constraints()])
    assert engines("auto", longest=longest).choose(request).name == ("torch" if reason else "ctranslate2")
    if reason:
        with pytest.raises(UsageError, match=reason):
            engines("ctranslate2", longest=longest).choose(request)
        learned = engines("auto", longest=longest, positions={"kind": "learned", "max_length": 9})
        assert learned.choose(request).name == "ctranslate2"


def test_nothing_is_exported_for_a_request_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_export, "export_ctranslate2", lambda *_: pytest.fail("exported"))
    request = DecodeRequest(GreedyConfig(), 1, [Constraints(prefix=[7])])
    assert chosen("auto", request) == "torch"


@pytest.mark.parametrize("problem", [ImportError("libgomp.so"), OSError("disk full"), QkvError("disk full")])
def test_a_fast_engine_that_cannot_be_made(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """auto says why and goes on without it; who asked for it is told in one sentence."""
    tries = []

    def fail(*_: object) -> None:
        tries.append(1)
        raise problem

    monkeypatch.setattr(fast_export, "export_ctranslate2", fail)
    several = engines("auto")
    with pytest.warns(UserWarning, match=f"^the slower engine torch is used: .*{problem}"):
        assert several.choose(PLAIN).name == "torch"
    assert several.choose(PLAIN).name == "torch"
    assert len(tries) == 1
    with pytest.raises(QkvError, match=str(problem)):
        chosen("ctranslate2")


def test_a_broken_installation_says_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(QkvError, match=r"cannot be made \(libgomp"):
        chosen("ctranslate2")


@pytest.mark.parametrize("wanted", ["auto", "torch"])
def test_nan_in_the_encoder_is_not_passed_over(wanted: EngineName) -> None:
    """A model in memory; one in a folder is checked when it is read. The attention may hide it."""
    saved = speaker()
    with torch.no_grad():
        next(saved.model.get_submodule("encoder").parameters()).fill_(torch.nan)
    with pytest.raises(QkvError, match="not a number"):
        Engines(ModelSet([saved]), wanted, 1, None).choose(PLAIN)


def test_an_engine_goes_when_nobody_has_it_any_more() -> None:
    """It holds a copy of the weights: that must not wait for the garbage collector."""
    gc.disable()
    try:
        engine = TorchEngine([speaker().model])
        engine.decode([[SPECIAL.eos]], PLAIN)
        seen = weakref.ref(engine)
        del engine
        assert seen() is None
    finally:
        gc.enable()


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with new_folder(tmp_path / "other", {"what": "tokenizers"}):
        pass
    with pytest.raises(CorruptFolder, match="holds no model"):
        ModelSet([tmp_path / "other"])
    with pytest.raises(QkvError, match="no such folder"):
        ModelSet([tmp_path / "none"])


def test_a_model_is_read_once_and_late(tmp_path: Path) -> None:
    models = ModelSet([save_speaker(tmp_path / "model")])
    assert len(models) == len(models.checksums) == 1
    (tmp_path / "model" / "config.yaml").unlink()
    with pytest.raises(CorruptFolder, match="is missing"):
        models.loaded  # noqa: B018  # reading it is the test
