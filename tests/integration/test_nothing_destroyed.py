"""No command changes a file that it did not make: whatever folder or name it is given, everything stays as it was."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import UsageError
from qkv.training.progress import SilentTrainingReporter
from qkv.training.trainer import Trainer
from tests.support.commands import quiet, refused, written, written_lines
from tests.support.forks import Forks
from tests.support.speaker import save_speaker
from tests.support.tiny import as_recipe, plain, write_recipe


def contents(folder: Path) -> dict[str, str]:
    """Everything below a folder, with a hash of what it holds."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    return save_speaker(in_memory / "kept" / "model")


@pytest.fixture
def mine(scratch: Path) -> Path:
    """A folder of somebody's work, with names that a run uses, too."""
    folder = scratch / "mine"
    for name in (
        "tokenizer/pieces",
        "events/party",
        "samples/blood",
        "data/train/pairs",
        "checkpoints/a",
        "config.yaml",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"my {name}\n")
    return folder


def test_training_in_a_folder_of_somebody_else(mine: Path, data: Path, scratch: Path, forks: Forks) -> None:
    before = contents(mine)
    (scratch / "link").symlink_to(mine)
    home = scratch / "home"
    home.mkdir()
    (home / ".profile").write_text("mine")
    for place in (mine, scratch / "link", home, Path("/")):
        ended = forks.qkv("train", write_recipe(scratch / "recipe.yaml", plain(data, place)))
        complaint = refused(ended, 2)
        assert complaint.startswith(f"{place}: is not empty and was not made by qkv (it holds ")
        assert complaint.endswith("; choose a new or empty folder with run=...")
    assert contents(mine) == before
    assert contents(home).keys() == {".profile"}
    assert not Path("/run.lock").exists()
    assert not Path("/qkv.json").exists()
    # A configuration alone does not make it a run.
    refused(forks.qkv("train", "--resume", mine), 2)
    shutil.copyfile(write_recipe(scratch / "recipe.yaml", plain(data, mine)), mine / "config.yaml")
    before = contents(mine)
    assert "was not made by qkv" in refused(forks.qkv("train", "--resume", mine), 2)
    assert contents(mine) == before


def test_an_empty_folder_will_do(data: Path, scratch: Path) -> None:
    (scratch / "empty").mkdir()
    (scratch / "link").symlink_to(scratch / "empty")
    Trainer(as_recipe(plain(data, scratch / "link", 2)), SilentTrainingReporter()).train()
    assert (scratch / "empty" / "best").is_dir()
    assert (scratch / "link").is_symlink()


def test_a_run_from_before_there_were_markers(data: Path, scratch: Path) -> None:
    """It can be taken up, but not begun again."""
    run = scratch / "run"
    Trainer(as_recipe(plain(data, run, 2)), SilentTrainingReporter()).train()
    (run / "qkv.json").unlink()
    shutil.rmtree(run / "best")
    shutil.rmtree(run / "checkpoints")
    before = contents(run)
    with pytest.raises(UsageError, match="was not made by qkv"):
        Trainer(as_recipe(plain(data, run, 2)), SilentTrainingReporter()).train()
    assert contents(run) == before
    assert Trainer.resume(run, reporter=SilentTrainingReporter()).train().updates == 2
    assert (run / "qkv.json").is_file()


def test_what_others_put_into_a_run_stays(data: Path, scratch: Path) -> None:
    run = scratch / "run"
    recipe = as_recipe(plain(data, run, 2))
    Trainer(recipe, SilentTrainingReporter()).train()
    shutil.rmtree(run / "best")
    shutil.rmtree(run / "checkpoints")
    (run / "samples" / "notes").write_text("mine")
    (run / "events" / "notes").write_text("mine")
    with pytest.raises(UsageError, match=r"tokenizer: is an input, but lies in .*run"):
        Trainer(recipe.model_copy(update={"tokenizers": run / "tokenizer"}), SilentTrainingReporter()).train()
    Trainer(recipe, SilentTrainingReporter()).train()
    assert (run / "samples" / "notes").read_text() == (run / "events" / "notes").read_text() == "mine"
    assert len(list((run / "events").glob("events.out*"))) == 1


@pytest.mark.parametrize("name", ["run.lock", "metrics.jsonl"])
def test_a_run_does_not_write_through_links(name: str, data: Path, scratch: Path) -> None:
    run, other = scratch / "run", written(scratch / "mine", b"mine\n")
    Trainer(as_recipe(plain(data, run, 2)), SilentTrainingReporter()).train()
    (run / name).unlink()
    (run / name).symlink_to(other)
    with pytest.raises(UsageError, match=f"{name}: is a symbolic link"):
        Trainer.resume(run, ["training.stop_after=4u"], SilentTrainingReporter()).train()
    assert other.read_bytes() == b"mine\n"


def outputs_over_inputs(model: Path, folder: Path) -> list[list[Any]]:
    """Commands that name a file of theirs twice, or a file of the model."""
    src, ref, hyp, tsv = (folder / name for name in ("src", "ref", "hyp", "tsv"))
    scored = ["evaluate", "--hyp", hyp, "--ref", ref, "--src", src, "--metrics", "exact"]
    decoded = ["evaluate", model, "--ref", ref, "--src", src, "--metrics", "exact"]
    compared = ["compare", hyp, ref, "--ref", ref, "--src", src, "--html"]
    return [
        *([*scored, "--html", path] for path in (src, ref, hyp)),
        [*scored, "--train", tsv, "--html", tsv],
        *([*decoded, "--out", path] for path in (src, ref, model / "config.yaml", model / "manifest.json")),
        [*decoded, "--out", folder / "both", "--html", folder / "both"],
        ["evaluate", model, "--tsv", tsv, "--out", tsv],
        *([*compared, path] for path in (src, ref, hyp)),
        *(["translate", model, "--input", src, "--prefix-file", ref, "--output", path] for path in (src, ref)),
        ["translate", model, "--input", src, "--output", model / "model.safetensors"],
        ["show", "beam", model, "aa", "--out", model / "config.yaml"],
        ["show", "mask", model, "--out", model / "tokenizer" / "text.json"],
        ["export", model, "--to", "ctranslate2", "--out", model / "tokenizer"],
        ["distill", model, "--src", src, "--tgt", ref, "--out", folder],
        ["backtranslate", model, "--mono", src, "--out", folder],
    ]


def test_outputs_over_inputs(model: Path, scratch: Path, forks: Forks) -> None:
    folder = scratch / "files"
    folder.mkdir()
    for name in ("src", "ref", "hyp"):
        written_lines(folder / name)
    (folder / "tsv").write_text("aa\tbb\n")
    (folder / "link").symlink_to("src")
    before, weights = contents(folder), contents(model)
    commands = outputs_over_inputs(model, folder)
    commands.append(["translate", model, "--input", folder / "src", "--output", folder / "link"])
    for command in commands:
        refused(forks.qkv(*command), 2)
    assert contents(folder) == before
    assert contents(model) == weights


def test_distilling_into_a_folder_with_a_corpus(model: Path, scratch: Path, forks: Forks) -> None:
    """Its files have the names that distilled data has."""
    corpus = scratch / "corpus"
    corpus.mkdir()
    for name in ("train.src", "train.tgt", "dev.src"):
        written_lines(corpus / name)
    before = contents(corpus)
    src = written_lines(scratch / "src")
    assert "was not made by qkv" in refused(forks.qkv("distill", model, "--src", src, "--out", corpus), 2)
    given = ["--src", corpus / "train.src", "--tgt", corpus / "train.tgt", "--out", corpus]
    assert "is an input, but lies in" in refused(forks.qkv("distill", model, *given), 2)
    pairs = {"kind": "text", "src": "train.src", "tgt": "train.tgt"}
    recipe = {"data": {"root": str(corpus), "train": pairs}, "text": {"shared": "char"}}
    given = ["--data", write_recipe(scratch / "recipe.yaml", recipe), "--out", corpus]
    assert "is an input, but lies in" in refused(forks.qkv("distill", model, *given), 2)
    assert contents(corpus) == before


def test_the_demonstration_in_a_folder_of_somebody_else(scratch: Path, forks: Forks) -> None:
    folder = scratch / "work"
    (folder / "run").mkdir(parents=True)
    for name in ("train.tsv", "results.json", "run/diary"):
        (folder / name).write_text("mine\n")
    before = contents(folder)
    for again in ((), ("--again",)):
        assert "was not made by qkv" in refused(forks.qkv("demo", "--folder", folder, "--words", 300, *again), 2)
    assert contents(folder) == before


def test_neighbours_with_the_names_of_temporary_files(model: Path, scratch: Path, forks: Forks) -> None:
    for name in ("out.tmp", "out.old.tmp"):
        (scratch / name).mkdir()
        (scratch / name / "thesis").write_text("mine")
    (scratch / "lines.part").write_text("mine")
    (scratch / "report.tmp").write_text("mine")
    src = written_lines(scratch / "src")
    before = contents(scratch)
    quiet(forks.qkv("export", model, "--to", "ctranslate2", "--out", scratch / "out"))
    quiet(forks.qkv("translate", model, "search=greedy", "--input", src, "--output", scratch / "lines"))
    quiet(forks.qkv("evaluate", "--hyp", src, "--ref", scratch / "lines", "--html", scratch / "report"))
    after = contents(scratch)
    assert {name: after[name] for name in before} == before
    assert {name.split("/")[0] for name in after.keys() - before.keys()} == {"out", "lines", "report"}
