"""The comparison of a quantised model with float32: it sees noise, and does not mistake rounding for it."""

from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import QkvError
from qkv.engines.agreement import LONGEST, NOISE, SOURCES, Agreement, agreement, sample_sources
from qkv.engines.base import Engine
from qkv.engines.ctranslate2_engine import CTranslate2Engine
from qkv.engines.onnx_engine import OnnxEngine
from qkv.engines.torch_engine import TorchEngine
from qkv.export.ctranslate2 import export_ctranslate2
from qkv.export.onnx import as_graph
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.text import SPECIAL
from tests.support.exported import decided_model, spoil_for_int8

KINDS: list[dict[str, Any]] = [{}, {"decoder": {"kind": "ctc"}}, {"decoder": {"kind": "nat"}}]


def fast_engine(saved: SavedModel, folder: Path, int8: bool) -> Engine:
    if saved.config.seq2seq.decoder.autoregressive:
        export_ctranslate2(saved, folder, "int8" if int8 else None)
        return CTranslate2Engine(folder, 1)
    return OnnxEngine(as_graph(saved, int8), 1)


@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_float32_costs_nothing(changes: dict[str, Any], tmp_path: Path) -> None:
    saved = decided_model(**changes)
    found = agreement(saved, fast_engine(saved, tmp_path / "fast", False), sample_sources(saved, None, None))
    assert found.sources == SOURCES
    assert found.same >= SOURCES - 1
    assert found.cost < 1e-3
    found.refuse_noise("float32")


@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_another_model_is_noise(changes: dict[str, Any]) -> None:
    saved, other = decided_model(0, **changes), decided_model(1, **changes)
    found = agreement(saved, TorchEngine([other.model]), sample_sources(saved, None, None))
    assert found.cost > NOISE
    with pytest.raises(QkvError, match="in int8 the model says something else"):
        found.refuse_noise("int8")


@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_weights_that_int8_cannot_hold_are_noise(changes: dict[str, Any], tmp_path: Path) -> None:
    """The same in float32, whatever the processor."""
    saved = decided_model(**changes)
    spoil_for_int8(saved)
    sources = sample_sources(saved, None, None)
    assert agreement(saved, fast_engine(saved, tmp_path / "fast", False), sources).cost < 1e-3
    assert agreement(saved, fast_engine(saved, tmp_path / "fast", True), sources).cost > NOISE


def test_a_cost_that_is_no_number_is_noise() -> None:
    with pytest.raises(QkvError, match="nothing was written"):
        Agreement(1, 0, float("nan")).refuse_noise("int8")


def test_sources_are_those_given_or_random_ones() -> None:
    saved = decided_model()
    given = sample_sources(saved, ["w001 w002 w003", "", "w004"], 3)
    assert [len(ids) for ids in given] == [3, 2]
    assert all(ids[-1] == SPECIAL.eos for ids in given)
    drawn = sample_sources(saved, None, 8)
    assert drawn == sample_sources(saved, None, 8)
    assert len(drawn) == SOURCES
    assert max(map(len, drawn)) == 8
    assert all(5 <= i < len(saved.tokenizers.src) for ids in drawn for i in ids[:-1])
    longer = SavedConfig(model=saved.config.model, text=saved.config.text, median_src=900)
    lengths = [len(ids) for ids in sample_sources(SavedModel(saved.model, saved.tokenizers, longer), None, None)]
    assert 2 * 10 < max(lengths) <= LONGEST + 1
