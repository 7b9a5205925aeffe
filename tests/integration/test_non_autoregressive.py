"""A model that writes all tokens at once, from the recipe to the picture; and every verb that it cannot serve."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from qkv.core.files import read_manifest
from qkv.search.refinement.search import RefineConfig
from qkv.training.run.folder import read_metrics
from qkv.translate.translator import Translator
from tests.support.commands import quiet, refused, written
from tests.support.forks import Forks
from tests.support.tiny import plain, write_recipe


def recipe_of(data: Path, run: Path, decoder: Any, **objective: Any) -> dict[str, Any]:
    recipe = plain(data, run, 8)
    recipe["model"]["decoder"] = decoder
    recipe["objective"] = objective
    recipe["validation"] |= {"metrics": ["exact"], "best": "exact"}
    return recipe


@pytest.fixture(scope="module")
def runs(in_memory: Path, data: Path, forks: Forks) -> Path:
    """Trained for a moment: one of each way to know a length, and one token by token."""
    folder = in_memory / "nat"
    folder.mkdir()
    for name, decoder, objective in (
        ("ctc", {"kind": "ctc", "upsample": 1}, {"glancing": {}}),
        ("mask", "mask_predict", {}),
        ("plain", "autoregressive", {}),
    ):
        recipe = recipe_of(data, folder / name, decoder, **objective)
        quiet(forks.qkv("train", write_recipe(folder / f"{name}.yaml", recipe)))
    written(folder / "lines", b"abcde\nhg\n\ncafe\n")
    return folder


def test_training_validates_by_refining_and_counts_what_does_not_fit(runs: Path) -> None:
    lines = read_metrics(runs / "ctc" / "metrics.jsonl")
    assert all("exact" in line for line in lines if "validation" in line)
    assert sum(line.get("left_out", 0) for line in lines) > 0  # words with twins do not fit without upsampling
    assert not any("left_out" in line for line in read_metrics(runs / "mask" / "metrics.jsonl"))
    scores: Any = dict(read_manifest(runs / "ctc" / "best"))["scores"]
    assert "exact" in scores
    assert any((runs / "ctc" / "samples").iterdir())


@pytest.mark.parametrize("name", ["ctc", "mask"])
def test_translate_and_evaluate_refine_by_themselves(runs: Path, forks: Forks, data: Path, name: str) -> None:
    plainly = quiet(forks.qkv("translate", runs / name, "--input", runs / "lines"))
    named = forks.qkv("translate", runs / name, "search.kind=refine", "--engine", "torch", "--input", runs / "lines")
    assert plainly == quiet(named)
    assert plainly.count("\n") == 4
    assert [one.text for one in Translator(runs / name).translate(["abcde", "hg", "", "cafe"])] == plainly.splitlines()
    sides = ("--src", data / "dev.src", "--ref", data / "dev.tgt", "--metrics", "exact")
    assert "exact match" in quiet(forks.qkv("evaluate", runs / name, *sides))
    assert "exact match" in quiet(forks.qkv("compare", runs / "plain", runs / name, *sides))


def test_a_length_is_a_setting(runs: Path, forks: Forks) -> None:
    lines = quiet(forks.qkv("translate", runs / "mask", "search.length=7", "--input", runs / "lines")).splitlines()
    assert [len(line) for line in lines] == [7, 7, 0, 7]
    too_long = forks.qkv("translate", runs / "ctc", "search.length=9", "--input", runs / "lines")
    assert "search.length 9 is outside the canvas" in refused(too_long, 2)


def test_another_model_chooses_among_several_lengths(runs: Path, forks: Forks, data: Path, scratch: Path) -> None:
    search = ("search.length_beam=4", f"search.rescore={runs / 'plain'}")
    lines = quiet(forks.qkv("translate", runs / "mask", *search, "--scores", "--input", runs / "lines")).splitlines()
    found = Translator(runs / "mask", search=RefineConfig(length_beam=4, rescore=runs / "plain"))
    for line, one in zip(lines, found.translate(["abcde", "hg", "", "cafe"]), strict=True):
        assert line == f"{one.score:.6f}\t{one.text}"
    by_itself = written(scratch / "hyp", (data / "dev.src").read_bytes())
    sides = ("--src", data / "dev.src", "--ref", data / "dev.tgt", "--metrics", "exact")
    assert "exact match" in quiet(forks.qkv("compare", by_itself, runs / "mask", *search, *sides))
    assert "exact match" in quiet(forks.qkv("evaluate", runs / "mask", *search, *sides))
    # The manifest knows the other model by its checksum, not by a path that is another one on another machine.
    quiet(forks.qkv("distill", runs / "mask", *search, "--src", data / "dev.src", "--out", scratch / "made"))
    assert str(runs) not in (scratch / "made" / "manifest.json").read_text()


def test_the_picture(runs: Path, forks: Forks, scratch: Path) -> None:
    ended = forks.qkv("show", "passes", runs / "mask", "abcde", "search.passes=3", "--out", scratch / "p.svg")
    assert quiet(ended).count("\n") == 1
    assert "passes over" in ended.stderr
    words = "".join(ElementTree.parse(scratch / "p.svg").getroot().itertext())
    assert "pass 1" in words
    assert "Passes over the canvas for: abcde" in words


def test_what_it_cannot_do_is_refused_in_one_sentence(runs: Path, forks: Forks, scratch: Path) -> None:
    lines = ("--input", runs / "lines")
    pairs = ("--src", runs / "lines", "--tgt", runs / "lines")
    refusals: list[tuple[list[Any], str]] = [
        (
            ["translate", runs / "ctc", "search.kind=beam", *lines],
            "of the kind ctc, so it has no next token: use refine",
        ),
        (["translate", runs / "ctc", "search=greedy", *lines], "so it has no next token: use refine"),
        (["translate", runs / "ctc", "--beam", 3, *lines], "has no such beam; use search.beam=3 for ctc"),
        (["translate", runs / "ctc", "--length-factor", 1e308, *lines], "length_factor"),
        (
            ["translate", runs / "plain", "search.length=3", "max_src_tokens=3", *lines],
            "is translated in parts, so it cannot have a given length",
        ),
        (["translate", runs / "plain", "search=refine", *lines], "autoregressive, so it has no search refine"),
        (["translate", runs / "mask", "--json", "--alignment", "weights", *lines], "tells no alignment"),
        (["translate", runs / "mask", "--engine", "ctranslate2", *lines], "the engine ctranslate2 cannot do this"),
        (["translate", runs / "mask", "--with", runs / "mask", *lines], "cannot form an ensemble"),
        (["align", runs / "ctc", *pairs], "of the kind ctc reads no given target"),
        (["score", runs / "ctc", *pairs], "of the kind ctc scores no given target"),
        (["export", runs / "mask", "--to", "ctranslate2", "--out", scratch / "x"], "decoder.kind mask_predict"),
        (["export", runs / "ctc", "--to", "huggingface", "--out", scratch / "x"], "decoder.kind ctc"),
        (["translate", runs / "mask", f"search.rescore={runs / 'plain'}", *lines], "among several outputs; add length"),
        (
            ["translate", runs / "mask", "search.length_beam=2", f"search.rescore={runs / 'ctc'}", *lines],
            "is of the kind ctc, which scores no given output",
        ),
        (["show", "passes", runs / "plain", "abc"], "so it fills no canvas; qkv show beam"),
        (["show", "beam", runs / "ctc", "abc"], "fills a canvas; qkv show passes"),
    ]
    for arguments, words in refusals:
        assert words in refused(forks.qkv(*arguments), 2), arguments
