"""qkv backtranslate: a source for every text of the target side, whatever stops it, with and without a tag."""

import os
import signal
import time
from pathlib import Path

import pytest

from qkv.config import load_config
from qkv.core.files import MANIFEST, read_manifest, verify_folder
from qkv.core.outputs import MARKER
from qkv.data.config import PairsConfig
from qkv.search.beam import BeamConfig
from qkv.search.sampling import SampleConfig
from qkv.training.recipe import Recipe
from qkv.translate.translator import Translator
from tests.support.commands import TORCH, quiet, refused, written, written_lines
from tests.support.forks import Forks
from tests.support.speaker import save_speaker

SETTINGS = ("search.max_factor=1", "search.size=2", *TORCH)
SEARCH = BeamConfig(size=2, max_factor=1)


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    return save_speaker(in_memory / "reverse-model")


@pytest.fixture(scope="module")
def mono(in_memory: Path) -> Path:
    return written_lines(in_memory / "mono")


@pytest.fixture(scope="module")
def straight(in_memory: Path, model: Path, mono: Path, forks: Forks) -> Path:
    out = in_memory / "synthetic"
    quiet(forks.qkv("backtranslate", model, *SETTINGS, "--mono", mono, "--out", out))
    return out


def texts(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_every_given_text_is_the_target_of_what_the_model_says(straight: Path, model: Path, mono: Path) -> None:
    assert (straight / "train.tgt").read_bytes() == mono.read_bytes()
    found = Translator(model, "torch", SEARCH).translate(texts(mono))
    assert texts(straight / "train.src") == [one.text for one in found]
    assert sorted(path.name for path in straight.iterdir()) == [MANIFEST, MARKER, "train.src", "train.tgt"]
    about = dict(verify_folder(straight))
    assert about["what"] == "synthetic pairs"
    assert about["reverse model"] == [read_manifest(model)["checksum"]]


def test_what_is_printed_is_a_corpus_of_a_recipe(
    straight: Path, model: Path, mono: Path, scratch: Path, forks: Forks
) -> None:
    item = quiet(forks.qkv("backtranslate", model, *SETTINGS, "--mono", mono, "--out", straight))
    recipe = f"data:\n  root: elsewhere\n  train:\n  - {{kind: tsv, path: real.tsv}}\n  {item}text: {{shared: char}}\n"
    data = load_config(Recipe, written(scratch / "next.yaml", recipe.encode())).data
    assert isinstance(data, PairsConfig)
    real, synthetic = data.train
    assert real.files() == {"path": Path("real.tsv")}
    assert synthetic.files() == {"src": straight / "train.src", "tgt": straight / "train.tgt"}


def test_a_tag_stands_before_every_synthetic_source(
    straight: Path, model: Path, mono: Path, scratch: Path, forks: Forks
) -> None:
    out = scratch / "tagged"
    quiet(forks.qkv("backtranslate", model, *SETTINGS, "--mono", mono, "--out", out, "--tag", "¤"))
    assert texts(out / "train.src") == [f"¤ {src}" for src in texts(straight / "train.src")]
    # Another tag makes other pairs.
    again = forks.qkv("backtranslate", model, *SETTINGS, "--mono", mono, "--out", out, "--tag", "<bt>")
    assert "another form of output" in refused(again, 2)


def test_sources_can_be_sampled(model: Path, mono: Path, scratch: Path, forks: Forks) -> None:
    sampled = ("search.kind=sample", "search.max_factor=1", "search.seed=4", *TORCH)
    quiet(forks.qkv("backtranslate", model, *sampled, "--mono", mono, "--out", scratch / "sampled"))
    found = Translator(model, "torch", SampleConfig(max_factor=1, seed=4)).translate(texts(mono))
    assert texts(scratch / "sampled" / "train.src") == [one.text for one in found]


def test_killed_in_the_middle_it_goes_on(straight: Path, model: Path, mono: Path, scratch: Path, forks: Forks) -> None:
    out = scratch / "out"
    arguments = [str(each) for each in ("backtranslate", model, *SETTINGS, "--mono", mono, "--out", out)]
    child = forks.start("tests.support.translating:slowly", 4, 0.1, *arguments)
    journal, began = out / "train.src.journal", time.monotonic()
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 2):
        assert child.poll() is None, child.err.read_text()
        assert time.monotonic() - began < 60
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not (out / MANIFEST).exists()
    ended = forks.qkv(*arguments)
    assert "resuming after line" in ended.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in straight.iterdir()
    }


def test_what_is_refused(straight: Path, model: Path, mono: Path, scratch: Path, forks: Forks) -> None:
    def complaint(code: int, *arguments: object) -> str:
        return refused(forks.qkv("backtranslate", model, *TORCH, *arguments), code)

    assert "must be one word" in complaint(2, "--mono", mono, "--tag", "two words", "--out", scratch / "a")
    assert "must be one word" in complaint(2, "--mono", mono, "--tag", "", "--out", scratch / "a")
    assert "is empty" in complaint(1, "--mono", written(scratch / "empty", b""), "--out", scratch / "b")
    assert "another search" in complaint(2, "--mono", mono, "--out", straight, "search.size=3")
    assert "is an input, but lies in" in complaint(2, "--mono", mono, "--out", mono.parent)
    distilled = scratch / "distilled"
    quiet(forks.qkv("distill", model, *SETTINGS, "--src", mono, "--out", distilled))
    assert "holds a distilled data" in complaint(2, "--mono", mono, "--out", distilled)
