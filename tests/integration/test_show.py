"""`qkv show`: a picture of the search that `qkv translate` does, of positions, or one sentence."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from qkv.cli.show.inside import wiring
from qkv.models.saved.folder import save_model
from tests.support.exported import decided_model
from tests.support.forks import Forks


@pytest.fixture(scope="module")
def models(in_memory: Path) -> Path:
    save_model(in_memory / "show" / "model", decided_model())
    save_model(in_memory / "show" / "short", decided_model(positions={"kind": "learned", "max_length": 12}))
    return in_memory / "show"


def test_the_picture_and_the_text_that_won(models: Path, forks: Forks, scratch: Path) -> None:
    ended = forks.qkv("show", "beam", models / "model", "w001 w017", "search.size=3", "--out", scratch / "b.svg")
    assert ended.code == 0, ended.stderr
    assert f"{scratch / 'b.svg'}: " in ended.stderr
    ElementTree.parse(scratch / "b.svg")
    (scratch / "line").write_text("w001 w017\n", encoding="utf-8")
    arguments = ["--engine", "torch", "--beam", 3, "--input", scratch / "line"]
    assert forks.qkv("translate", models / "model", *arguments).stdout == ended.stdout


def test_refusals(models: Path, forks: Forks, scratch: Path) -> None:
    exported = forks.qkv("export", models / "model", "--to", "huggingface", "--out", scratch / "hf")
    assert exported.code == 0, exported.stderr
    refused = {
        (models / "model", "w001", "search.kind=greedy"): (2, "the picture shows a beam search"),
        (models / "model", "", "search.size=2"): (2, "the text is empty"),
        (models / "model", "w001 \udcff", "search.size=2"): (2, "the text is not valid UTF-8"),
        (models / "model", "w001 w002 w003", "max_src_tokens=3"): (2, "2 can be read at most; give a shorter one"),
        (models / "short", "w001 " * 12, "search.size=2"): (2, "11 can be read at most; give a shorter one"),
        (scratch / "hf", "w001", "search.size=2"): (1, "holds no model; give the folder of a model or of a run"),
        (scratch / "none", "w001", "search.size=2"): (1, "no such folder"),
    }
    for arguments, (code, sentence) in refused.items():
        ended = forks.qkv("show", "beam", *arguments, "--out", scratch / "b.svg")
        assert ended.code == code, ended.stderr
        assert sentence in ended.complaint
    assert not (scratch / "b.svg").exists()


def test_positions_of_every_scheme_and_of_a_model(models: Path, forks: Forks, scratch: Path) -> None:
    for arguments, panel in (((), "sinusoidal"), ((models / "short",), "decoder, head 2")):
        ended = forks.qkv("show", "positions", *arguments, "--length", 6, "--out", scratch / "p.svg")
        assert ended.code == 0, ended.stderr
        assert panel in ended.stderr
        assert panel in "".join(ElementTree.parse(scratch / "p.svg").getroot().itertext())
    ended = forks.qkv("show", "positions", models / "short", "--out", scratch / "p.svg")
    assert ended.code == 1
    assert "does not fit learned positions up to 12" in ended.complaint


def test_an_export_for_ctranslate2_is_refused(models: Path, forks: Forks, scratch: Path) -> None:
    forks.qkv("export", models / "model", "--to", "ctranslate2", "--out", scratch / "fast")
    ended = forks.qkv("show", "beam", scratch / "fast", "w001", "--out", scratch / "b.svg")
    assert ended.code == 2, ended.stderr
    assert "was exported; give the model that it was made from" in ended.complaint


def test_masks_of_every_kind_and_of_a_model(models: Path, forks: Forks, scratch: Path) -> None:
    for arguments, panel in (((), "truncated, dilation 3"), ((models / "model",), "decoder, layer 1")):
        ended = forks.qkv("show", "mask", *arguments, "--length", 6, "--out", scratch / "a.svg")
        assert ended.code == 0, ended.stderr
        assert panel in ended.stderr
        assert "attention" not in ended.stderr
        assert panel in "".join(ElementTree.parse(scratch / "a.svg").getroot().itertext())


def test_the_old_name_of_show_mask_warns(forks: Forks, scratch: Path) -> None:
    ended = forks.qkv("show", "attention", "--length", 6, "--out", scratch / "a.svg")
    assert (ended.code, ended.stdout) == (0, "")
    assert ended.stderr.count("qkv show attention is deprecated; use qkv show mask (it draws masks, not weights)") == 1
    forks.qkv("show", "mask", "--length", 6, "--out", scratch / "m.svg")
    assert (scratch / "a.svg").read_bytes() == (scratch / "m.svg").read_bytes()


def test_depths_and_wirings(models: Path, forks: Forks, scratch: Path) -> None:
    save_model(scratch / "deep", decided_model(stack={"kind": "adaptive"}))
    ended = forks.qkv("show", "depth", scratch / "deep", "w001 w017", "--out", scratch / "d.svg")
    assert ended.code == 0, ended.stderr
    assert "steps a token\n  w001" in ended.stdout
    refused = forks.qkv("show", "depth", models / "model", "w001", "--out", scratch / "none.svg")
    assert refused.code == 2
    assert "model.stack=adaptive" in refused.complaint
    for arguments, kinds in (((), "last, layerwise, mix, dense, concatenated"), ((models / "model",), "last")):
        ended = forks.qkv("show", "wiring", *arguments, "--out", scratch / "w.svg")
        assert ended.code == 0, ended.stderr
        assert ended.stderr.strip().endswith(f"w.svg: {kinds}")
    for name in ("d.svg", "w.svg"):
        ElementTree.parse(scratch / name)


def test_without_a_name_nothing_is_overwritten(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(scratch)
    (scratch / "wiring.svg").write_text("mine")
    for expected in ("wiring-2.svg", "wiring-3.svg"):
        wiring()
        assert capsys.readouterr().err.startswith(f"{expected}: ")
    assert (scratch / "wiring.svg").read_text() == "mine"
    wiring(out=Path("wiring.svg"))
    assert (scratch / "wiring.svg").read_text() == (scratch / "wiring-2.svg").read_text()


def test_figures_for_paper(models: Path, forks: Forks, scratch: Path) -> None:
    for verb, arguments, name, begin in (
        ("beam", (models / "model", "w001 w017"), "b.pdf", b"%PDF"),
        ("mask", ("--length", 6), "m.png", b"\x89PNG"),
        ("positions", ("--length", 6), "p.pdf", b"%PDF"),
        ("wiring", (), "w.png", b"\x89PNG"),
    ):
        ended = forks.qkv("show", verb, *arguments, "--out", scratch / name)
        assert ended.code == 0, ended.stderr
        assert (scratch / name).read_bytes().startswith(begin)
    refused = forks.qkv("show", "mask", "--out", scratch / "m.gif")
    assert refused.code == 2
    assert "written as .svg, .png or .pdf" in refused.complaint
