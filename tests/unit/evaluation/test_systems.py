"""Outputs of a model are lines, whatever is in them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qkv.core.progress import SilentReporter
from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.systems import decode_outputs
from qkv.models.saved.folder import save_model
from qkv.translate.output import Translation, plain
from qkv.translate.translator import Translator
from tests.support.exported import decided_model

SAID = ["two\nlines", "a\r\ttab", "", "plain"]


def test_an_output_is_the_line_that_translate_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Translation(text, 0.0, [], [], []) for text in SAID]

    def translate(self: Translator, texts: Sequence[str], **_: Any) -> list[Translation]:
        return found

    monkeypatch.setattr(Translator, "translate", translate)
    save_model(tmp_path / "model", decided_model())
    test = EvaluationSet("ref", [[text] for text in SAID], SAID)
    outputs = decode_outputs([tmp_path / "model"], test, [], None, "torch", SilentReporter()).texts
    assert [f"{output}\n" for output in outputs] == [plain(0, one) for one in found]
    assert outputs[:2] == ["two lines", "a  tab"]
