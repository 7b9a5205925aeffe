"""`qkv export`: what it writes runs, what it cannot do is said in one sentence, and nothing else is touched."""

import shutil
from pathlib import Path

import pytest

from qkv.core.files import sha256_of, verify_folder
from qkv.models.saved.folder import save_model
from qkv.training.progress import SilentTrainingReporter
from qkv.training.trainer import Trainer
from tests.support.exported import decided_model, spoil_for_int8
from tests.support.forks import Forks
from tests.support.tiny import as_recipe, plain

LINES = "w001 w017 w003\n\nw030\nw005 w005 w006 w007 w008\n"


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    save_model(in_memory / "model", decided_model())
    return in_memory / "model"


def test_an_export_for_ctranslate2_translates_as_the_model_does(model: Path, forks: Forks, scratch: Path) -> None:
    before = {path: sha256_of(path) for path in model.rglob("*") if path.is_file()}
    ended = forks.qkv("export", model, "--to", "ctranslate2", "--out", scratch / "fast")
    assert (ended.code, ended.stdout) == (0, ""), ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(f"{scratch / 'fast'}: written for ctranslate2, ")
    (scratch / "lines.txt").write_text(LINES, encoding="utf-8")
    exported = forks.qkv("translate", scratch / "fast", "--input", scratch / "lines.txt")
    trained = forks.qkv("translate", model, "--engine", "torch", "--input", scratch / "lines.txt")
    assert exported.code == trained.code == 0, exported.stderr + trained.stderr
    assert exported.stdout == trained.stdout
    assert exported.stdout.count("\n") == 4
    again = forks.qkv("export", model, "--to", "ctranslate2", "--out", scratch / "fast", "--quantization", "int8")
    if "the model says something else" in again.stderr:
        # oneDNN was chosen on a processor where it saturates.
        assert again.code == 1
        assert verify_folder(scratch / "fast")["quantization"] is None
    else:
        assert again.code == 0, again.stderr
        assert "written for ctranslate2 in int8" in again.stderr
        assert verify_folder(scratch / "fast")["quantization"] == "int8"
    assert {path: sha256_of(path) for path in model.rglob("*") if path.is_file()} == before


def test_an_export_for_onnx_runtime_translates_as_the_model_does(forks: Forks, scratch: Path) -> None:
    save_model(scratch / "ctc", decided_model(decoder={"kind": "ctc"}, residual={"kind": "pre"}))
    (scratch / "lines.txt").write_text(LINES, encoding="utf-8")
    for quantization in ("int8", "float32"):
        given = ("--quantization", quantization)
        ended = forks.qkv("export", scratch / "ctc", "--to", "onnx", "--out", scratch / "fast", *given)
        assert (ended.code, ended.stdout) == (0, ""), ended.stderr
        assert f"written for onnx in {quantization}" in ended.stderr
        exported = forks.qkv("translate", scratch / "fast", "--input", scratch / "lines.txt")
        assert exported.code == 0, exported.stderr
    trained = forks.qkv("translate", scratch / "ctc", "--engine", "torch", "--input", scratch / "lines.txt")
    on_the_fly = forks.qkv("translate", scratch / "ctc", "--engine", "onnxruntime", "--input", scratch / "lines.txt")
    assert exported.stdout == trained.stdout == on_the_fly.stdout, trained.stderr + on_the_fly.stderr
    assert exported.stdout.count("\n") == 4


@pytest.mark.parametrize(("to", "decoder"), [("ctranslate2", "autoregressive"), ("onnx", "ctc")])
def test_noise_is_refused_and_nothing_written(to: str, decoder: str, forks: Forks, scratch: Path) -> None:
    """A weight that is never used takes all the steps that int8 has: every other weight of its row becomes 0."""
    saved = decided_model(decoder={"kind": decoder})
    save_model(scratch / "model", saved)
    export = ("export", scratch / "model", "--to", to, "--out", scratch / "fast")
    assert forks.qkv(*export).code == 0
    before = {path: sha256_of(path) for path in (scratch / "fast").rglob("*") if path.is_file()}
    spoil_for_int8(saved)
    save_model(scratch / "model", saved)
    ended = forks.qkv(*export, "--quantization", "int8")
    assert (ended.code, ended.stdout) == (1, "")
    assert "in int8 the model says something else" in ended.complaint
    assert "nothing was written" in ended.complaint
    assert {path: sha256_of(path) for path in (scratch / "fast").rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in scratch.iterdir()) == ["fast", "model"]
    assert forks.qkv(*export).code == 0, "float32 has no such limit"


def test_a_quantised_export_is_compared_on_the_sources_that_are_given(model: Path, forks: Forks, scratch: Path) -> None:
    (scratch / "sample.txt").write_text(LINES, encoding="utf-8")
    export = ("export", model, "--to", "ctranslate2", "--out", scratch / "fast", "--quantization", "float16")
    assert "float16 compared with float32 on 100 random sources: " in forks.qkv(*export).stderr
    ended = forks.qkv(*export, "--sample", scratch / "sample.txt")
    assert "float16 compared with float32 on 3 sources: " in ended.stderr
    (scratch / "empty.txt").write_text("\n\n", encoding="utf-8")
    for name, code, sentence in (("empty", 2, "has no source; give a file"), ("nowhere", 1, "nowhere.txt: ")):
        ended = forks.qkv(*export, "--sample", scratch / f"{name}.txt")
        assert ended.code == code, ended.stderr
        assert sentence in ended.complaint


def test_a_run_is_compared_on_its_dev_sources(data: Path, forks: Forks, scratch: Path) -> None:
    assert Trainer(as_recipe(plain(data, scratch / "run", 4)), SilentTrainingReporter()).train().finished
    export = ("export", scratch / "run", "--to", "ctranslate2", "--out", scratch / "fast", "--quantization", "float16")
    assert "compared with float32 on 12 sources: " in forks.qkv(*export).stderr
    shutil.rmtree(scratch / "run" / "data")
    assert "compared with float32 on 100 random sources" in forks.qkv(*export).stderr


def test_an_export_for_hugging_face(model: Path, forks: Forks, scratch: Path) -> None:
    ended = forks.qkv("export", model, "--to", "huggingface", "--out", scratch / "hf")
    assert ended.code == 0, ended.stderr
    assert verify_folder(scratch / "hf")["what"] == "huggingface"


def test_refusals(model: Path, forks: Forks, scratch: Path) -> None:
    (scratch / "notes").mkdir()
    (scratch / "notes" / "mine.txt").write_text("mine", encoding="utf-8")
    save_model(scratch / "learned", decided_model(positions={"kind": "learned"}, feed_forward={"kind": "swiglu"}))
    forks.qkv("export", model, "--to", "huggingface", "--out", scratch / "hf")
    out = scratch / "out"
    refused = {
        (model, "marian", out, None): (2, "--to marian: must be ctranslate2 or huggingface or onnx"),
        (model, "onnx", out, None): (2, "an autoregressive model is a loop, not one graph; export it to ctranslate2"),
        (model, "ctranslate2", scratch / "notes", None): (2, "exists already and is no export; choose another folder"),
        (model, "ctranslate2", model, None): (2, "exists already and is no export; choose another folder"),
        (scratch / "nowhere", "ctranslate2", out, None): (1, "nowhere: no such folder"),
        (scratch / "hf", "ctranslate2", out, None): (2, "is an export itself; give the model that it was made from"),
        (model, "huggingface", out, "int8"): (2, "quantization int8: only ctranslate2 and onnx have that"),
        (model, "ctranslate2", out, "int3"): (2, "quantization int3 is unknown, choose one of int8, "),
        (scratch / "learned", "huggingface", out, None): (
            2,
            "model.positions.kind learned; Hugging Face has no form of",
        ),
    }
    for (source, to, target, quantization), (code, sentence) in refused.items():
        extra = ["--quantization", quantization] if quantization else []
        ended = forks.qkv("export", source, "--to", to, "--out", target, *extra)
        assert ended.code == code, ended.stderr
        assert sentence in ended.complaint
    assert not out.exists()
    assert (scratch / "notes" / "mine.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2", "onnx"])
def test_a_full_disk_is_said_in_one_sentence_and_nothing_is_left(
    to: str, model: Path, forks: Forks, scratch: Path
) -> None:
    source = model
    if to == "onnx":
        source = scratch / "ctc"
        save_model(source, decided_model(decoder={"kind": "ctc"}, residual={"kind": "pre"}))
    (scratch / "out").mkdir()
    for largest in (0, 300, 3000):
        arguments = ("export", str(source), "--to", to, "--out", str(scratch / "out" / to))
        ended = forks.call("tests.support.faults:with_small_files", largest, *arguments)
        assert ended.code == 1, ended.stderr
        assert "cannot be written" in ended.complaint
        assert list((scratch / "out").iterdir()) == []
