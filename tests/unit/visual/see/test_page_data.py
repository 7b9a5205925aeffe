"""The data of a page: arrays, sizes, and text that cannot run."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qkv import Translator, capture_attention, look_inside
from qkv.core.arrays import packed, packed_coarsely, unpacked
from qkv.core.errors import UsageError
from qkv.models.saved.folder import SavedModel
from qkv.visual.see.bertviz import bertviz_arrays, write_bertviz
from qkv.visual.see.record import as_record
from qkv.visual.see.sentence import see_sentence
from tests.support.exported import decided_model

TEXT = "w001 w017 w003"


@pytest.fixture(scope="module")
def saved() -> SavedModel:
    return decided_model()


def data_of(page: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def test_arrays_come_back() -> None:
    weights = torch.rand(3, 4, 5)
    assert (unpacked(packed(weights)) - weights).abs().max() < 1e-3
    assert (unpacked(packed_coarsely(weights)) - weights).abs().max() <= 0.5 / 255 + 1e-6
    extreme = torch.tensor([torch.inf, -torch.inf, 1e9, torch.nan, -3.5])
    assert unpacked(packed(extreme)).tolist() == [65504.0, -65504.0, 65504.0, 0.0, -3.5]
    assert unpacked(packed_coarsely(extreme)).tolist() == [1.0, 0.0, 1.0, 0.0, 0.0]


def test_the_record_holds_what_was_seen(saved: SavedModel) -> None:
    seen = see_sentence(saved, TEXT)
    record = as_record(seen)
    for each, wanted in zip(record["attentions"], seen.attentions, strict=True):
        assert (unpacked(each["weights"]) - wanted.weights).abs().max() < 1e-3
        assert each["name"] == wanted.name
        pass_ = seen.trace.sublayers[wanted.name][0]
        vectors = unpacked(record["vectors"][each["sublayer"]["result"]])
        torch.testing.assert_close(vectors, pass_.result, atol=2e-3, rtol=2e-3)
    assert [box["name"] for box in record["boxes"]][-1] == "head"
    counted = {box["name"]: box["parameters"] for box in record["boxes"]}
    attention = saved.model.get_submodule("encoder.layers.0.attention")
    assert counted["encoder.layers.0.attention"] == sum(weight.numel() for weight in attention.parameters())
    json.dumps(record, allow_nan=False)


def test_a_state_is_written_once(saved: SavedModel) -> None:
    record = as_record(see_sentence(saved, TEXT))
    first, *_ = record["feed_forwards"]
    (attention,) = [each for each in record["attentions"] if each["name"] == "encoder.layers.0.attention"]
    assert attention["sublayer"]["result"] == first["x"]


def test_vectors_of_a_long_sentence_are_left_out(saved: SavedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.visual.see.record.VECTOR_BYTES", 1000)
    record = as_record(see_sentence(saved, TEXT))
    assert record["vectors"] == []
    assert record["feed_forwards"] == []
    assert all(each["heads"] is None for each in record["attentions"])


def test_text_cannot_leave_its_element(saved: SavedModel) -> None:
    text = "</script><script>alert(1)</script> <!-- \u2028 w001"
    page = look_inside(saved, text).html()
    assert data_of(page)["records"][0]["text"] == text
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "alert(1)</script" not in page


def test_two_models_are_compared(saved: SavedModel, tmp_path: Path) -> None:
    view = look_inside(saved, TEXT, compare=decided_model(seed=1))
    view.save(tmp_path / "two.html")
    records = data_of((tmp_path / "two.html").read_text(encoding="utf-8"))["records"]
    assert [record["output"] for record in records] == [seen.output for seen in view.sentences]
    assert [record["model"]["name"] for record in records] == ["model (1)", "model (2)"]


def test_bertviz_gets_its_tensors(saved: SavedModel, tmp_path: Path) -> None:
    seen = see_sentence(saved, TEXT)
    write_bertviz(tmp_path / "a.npz", seen)
    write_bertviz(tmp_path / "a.json", seen)
    loaded, plain = np.load(tmp_path / "a.npz"), json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    source, target = len(seen.src_tokens), len(seen.read)
    shapes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    for side, (rows, keys) in shapes.items():
        assert loaded[f"{side}_attention"].shape == (2, 1, 2, rows, keys)
        np.testing.assert_allclose(np.array(plain[f"{side}_attention"]), loaded[f"{side}_attention"], atol=1e-6)
    assert list(loaded["encoder_tokens"]) == plain["encoder_tokens"] == seen.src_tokens
    assert set(bertviz_arrays(seen)) == set(loaded.files)
    with pytest.raises(UsageError, match="must end with"):
        write_bertviz(tmp_path / "a.html", seen)


def test_a_notebook_shows_each_of_them(saved: SavedModel) -> None:
    translator = Translator(saved, engine="torch", search="greedy")
    bad = "<img src=x onerror=alert(1)>"
    with capture_attention(saved.model) as record:
        found = translator.translate(f"w001 {bad}", nbest=1)
    shown = found._repr_html_()
    assert "&lt;" in shown or "&lt;unk&gt;" in shown
    assert "<img" not in shown
    assert record._repr_html_().count('<img src="data:image/png;base64,') == 2 * len(record)
    frame = look_inside(saved, f"w001 {bad}")._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts"')
    assert frame.count("<") == 2, "everything inside the frame's address is escaped"
