"""A search that no memory could hold is refused before anything is allocated, whatever the engine."""

from pathlib import Path
from typing import Any

import pytest

from qkv.cli.model import export
from qkv.core.errors import UsageError
from qkv.engines.fast_engines import EngineName
from qkv.models.saved.folder import SavedConfig, load_model
from qkv.search import capacity
from qkv.search.beam import BeamConfig
from qkv.search.sampling import SampleConfig
from qkv.translate.texts import DecodeOptions
from qkv.translate.translator import Translator
from qkv.visual.beam_tree import grow_tree
from tests.support.small import small_config, small_text
from tests.support.speaker import save_speaker, sentences

SEARCHES: list[dict[str, Any]] = [
    {"kind": "sample", "samples": 1_000_000},
    {"kind": "mbr", "samples": 10_000},
    {"kind": "beam", "size": 190},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_speaker(tmp_path_factory.mktemp("capacity") / "model")


@pytest.fixture(scope="module")
def exported(model: Path) -> Path:
    export(model, "ctranslate2", model.parent / "fast")
    return model.parent / "fast"


@pytest.mark.parametrize("engine", ["auto", "torch", "ctranslate2"])
def test_a_beam_wider_than_the_vocabulary_has_beginnings(engine: EngineName, model: Path, exported: Path) -> None:
    folder = exported if engine == "ctranslate2" else model
    translator = Translator(folder, engine, BeamConfig(size=100_000))
    with pytest.raises(UsageError, match=r"search.size=100,000: the vocabulary of 14 tokens has only 196 beginnings"):
        translator.translate(sentences(2))
    assert Translator(folder, engine, BeamConfig(size=196, max_length=3)).translate("aa ab").text is not None


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_memory_bounds_every_search(search: dict[str, Any], model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "available_memory", lambda: 1 << 20)
    with pytest.raises(UsageError, match=r"hypotheses of a sentence need about .* GiB of memory.*give at most \d+"):
        Translator(model, "torch", search).translate(sentences(2))
    # Where the system does not say how much there is, nothing is refused for it.
    monkeypatch.setattr(capacity, "available_memory", lambda: None)
    assert Translator(model, "torch", search).decoder(DecodeOptions()).engine.name == "torch"


def test_the_picture_of_a_beam(model: Path) -> None:
    with pytest.raises(UsageError, match=r"search\.size=5,000"):
        grow_tree(load_model(model), "aa", BeamConfig(size=5000))


def test_the_estimate_is_of_the_right_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 GB for 100,000 hypotheses of a small model, as was measured."""
    text, _ = small_text()
    model = small_config(d_model=64, d_ff=128, num_heads=2, decoder_layers=2)
    config = SavedConfig(model=model, text=text, median_src=5)
    search = SampleConfig(samples=100_000, max_length=20)
    monkeypatch.setattr(capacity, "available_memory", lambda: 20 * 10**9)
    capacity.require_search_memory(search, config, 14)
    monkeypatch.setattr(capacity, "available_memory", lambda: 2 * 10**9)
    with pytest.raises(UsageError, match=r"search: 100,000 hypotheses of a sentence need about"):
        capacity.require_search_memory(search, config, 14)
