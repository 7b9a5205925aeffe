"""Outputs much longer than their sources: training, validation, every engine and `data check` know of it."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qkv.config import load_config
from qkv.core.errors import UsageError
from qkv.core.files import MANIFEST, write_manifest
from qkv.data.length_limit import LengthLimit
from qkv.engines.fast_engines import EngineName
from qkv.models.saved.folder import CONFIG, SavedConfig, SavedModel, load_model, save_model
from qkv.search.greedy import GreedyConfig
from qkv.search.refinement.search import RefineConfig
from qkv.training.trainer import Trainer
from qkv.translate.translator import Translator
from tests.support.exported import decided_model
from tests.support.forks import Forks
from tests.support.long_outputs import SOURCES, recipe_of
from tests.support.speaker import endless
from tests.support.tiny import as_recipe, assert_same, changed, validations_of, write_recipe


def texts(folder: Path, **settings: Any) -> list[str]:
    return [found.text for found in Translator(folder, workers=1, **settings).translate(SOURCES)]


def test_validation_reaches_long_references(long_run: Path) -> None:
    assert [line["exact"] for line in validations_of(long_run)] == [100.0]


def test_translations_reach_long_references(long_run: Path, long_data: Path) -> None:
    wanted = (long_data / "dev.tgt").read_text(encoding="utf-8").split("\n")[: len(SOURCES)]
    engines: Sequence[EngineName] = ("torch", "ctranslate2")
    for engine in engines:
        for search in (None, GreedyConfig()):
            assert texts(long_run, engine=engine, search=search) == wanted


def test_a_folder_without_a_limit_keeps_the_old_one(long_run: Path, scratch: Path) -> None:
    """As a version before this one wrote it: the key is not there."""
    shutil.copytree(long_run / "best", scratch / "old")
    (scratch / "old" / MANIFEST).unlink()
    written = (scratch / "old" / CONFIG).read_text(encoding="utf-8")
    before, _, behind = written.partition("length_limit:\n")
    rest = [line for line in behind.splitlines(keepends=True) if not line.startswith(" ")]
    (scratch / "old" / CONFIG).write_text(before + "".join(rest), encoding="utf-8")
    write_manifest(scratch / "old", {"what": "model"})
    found = Translator(scratch / "old", "torch", GreedyConfig()).translate(SOURCES)
    assert [(len(one.tokens), one.out_cut) for one in found] == [(14, True)] * len(SOURCES)


def test_the_limit_outlives_saving_exporting_and_averaging(long_run: Path, scratch: Path, forks: Forks) -> None:
    limit = load_config(SavedConfig, long_run / "best" / CONFIG).length_limit
    save_model(scratch / "again", load_model(long_run / "best"))
    for command in (
        ("export", long_run, "--to", "ctranslate2", "--out", scratch / "fast"),
        ("average", long_run, "--last", "1", "--out", scratch / "mean"),
    ):
        assert forks.qkv(*command).code == 0
    for folder in ("again", "fast", "mean"):
        assert load_config(SavedConfig, scratch / folder / CONFIG).length_limit == limit
    assert texts(scratch / "fast") == texts(long_run)


def with_limit(saved: SavedModel, limit: LengthLimit) -> SavedModel:
    return SavedModel(saved.model, saved.tokenizers, saved.config.model_copy(update={"length_limit": limit}))


@pytest.mark.parametrize(
    ("search", "lengths"),
    [
        ({}, [9, 11, 15]),
        ({"max_factor": 1.0}, [6, 7, 9]),
        ({"max_extra": 0}, [6, 8, 12]),
        ({"max_length": 40}, [40, 40, 40]),
        ({"max_length": 8, "max_extra": 3}, [8, 8, 8]),
    ],
)
def test_every_engine_stops_at_the_limit_of_the_model(search: dict[str, Any], lengths: list[int]) -> None:
    """Of a model that never says END; the sources have 3, 4 and 6 tokens with END."""
    saved = with_limit(endless(), LengthLimit(factor=2.0, extra=3, most=None))
    engines: Sequence[EngineName] = ("torch", "ctranslate2")
    for engine in engines:
        found = Translator(saved, engine, GreedyConfig(**search)).translate(["aa bb", "aa bb cc", "aa bb cc aa bb"])
        assert [len(one.tokens) for one in found] == lengths
        assert all(one.out_cut for one in found)


def test_the_absolute_bound_of_a_model() -> None:
    saved = with_limit(endless(), LengthLimit(factor=2.0, extra=3, most=10))
    (found,) = Translator(saved, "torch", GreedyConfig()).translate(["aa bb cc aa bb"])
    assert len(found.tokens) == 10


def test_engines_for_parallel_models_agree_on_the_limit() -> None:
    text = " ".join(f"w{number:03}" for number in range(12))
    saved = decided_model(decoder={"kind": "ctc"})
    engines: Sequence[EngineName] = ("torch", "onnxruntime")
    for limit in (LengthLimit(factor=0.0, extra=3), LengthLimit(factor=0.5, extra=0), LengthLimit(factor=2.0, extra=9)):
        limited = with_limit(saved, limit)
        both = [Translator(limited, engine, RefineConfig(passes=1)).translate([text]) for engine in engines]
        lengths = {len(found.tokens) for (found,) in both}
        assert len(lengths) == 1
        assert lengths.pop() <= int(limit.factor * 13) + limit.extra


def test_a_resumed_run_has_the_same_limit(long_data: Path, scratch: Path) -> None:
    """And the same scores and models, bit for bit."""
    for name, stops in (("straight", [8]), ("stopped", [4, 8])):
        recipe = changed(recipe_of(long_data, scratch / name, stops[0]), validation={"every": "2u"})
        Trainer(as_recipe(recipe)).train()
        for stop in stops[1:]:
            Trainer.resume(scratch / name, [f"training.stop_after={stop}u"]).train()
    assert_same(scratch / "stopped", scratch / "straight")
    folders = [scratch / name / "best" / CONFIG for name in ("straight", "stopped")]
    assert folders[0].read_text() == folders[1].read_text()


def test_the_search_of_validation(long_data: Path, scratch: Path, long_run: Path) -> None:
    """One with its own limit cuts, and says so."""
    recipe = as_recipe(recipe_of(long_data, scratch / "run", 2, search={"max_length": 0}))
    Trainer(recipe).train()
    (line,) = validations_of(scratch / "run")
    assert line["cut"] == len(SOURCES)
    assert validations_of(long_run)[0]["cut"] == 0


@pytest.mark.parametrize(
    ("decoder", "search", "problem"),
    [
        ("autoregressive", "refine", "use greedy, beam, sample or mbr"),
        ("ctc", "beam", "use refine"),
        ("ctc", {"max_length": 3}, "use refine"),
        ("ctc", {"kind": "refine", "beam": 3, "rescore": "elsewhere"}, "leave it out"),
    ],
)
def test_a_search_that_does_not_fit_the_decoder(decoder: str, search: Any, problem: str, long_data: Path) -> None:
    recipe = changed(recipe_of(long_data, Path("run"), search=search), model={"decoder": decoder})
    with pytest.raises(UsageError, match=problem):
        as_recipe(recipe)


def test_data_check_warns_of_targets_out_of_reach(long_data: Path, scratch: Path, forks: Forks) -> None:
    recipe = recipe_of(long_data, scratch / "run")
    recipe["data"]["test"] = {"kind": "text", "src": "test.src", "tgt": "test.tgt"}
    path = write_recipe(scratch / "recipe.yaml", recipe)
    ended = forks.qkv("data", "check", path)
    assert "outputs: at most" in ended.stdout
    assert "longer than an output" not in ended.stdout
    ended = forks.qkv("data", "check", path, "validation.search.max_length=24")
    assert "4 of 4 targets of dev are longer than an output may be" in ended.stdout
    assert "raise validation.search.max_length" in ended.stdout
    (long_data / "far.tgt").write_text("".join(f"{'x ' * 150}\n" for _ in SOURCES), encoding="utf-8")
    ended = forks.qkv("data", "check", path, "data.test.tgt=far.tgt")
    assert "4 of 4 targets of test are longer" in ended.stdout
    assert "raise search.max_length" in ended.stdout


def test_reports_tell_what_was_cut_and_how(long_run: Path, long_data: Path, scratch: Path, forks: Forks) -> None:
    files = ("--src", long_data / "dev.src", "--ref", long_data / "dev.tgt", "--metrics", "exact")
    page = scratch / "report.html"
    ended = forks.qkv("evaluate", long_run, "search.max_length=5", *files, "--json", "--html", page)
    remark = "4 of 4 outputs were cut at 5 tokens; search.max_length sets another limit"
    assert remark in ended.stderr
    found = json.loads(ended.stdout)
    assert found["remarks"] == [remark]
    assert found["decoding"]["outputs_cut"] == {"count": 4, "key": "search.max_length"}
    assert found["decoding"]["search"]["max_length"] == 5
    assert found["decoding"]["search"]["kind"] == "beam"
    html = page.read_text(encoding="utf-8")
    assert remark in html
    assert "search.length_penalty.alpha=1.0" in html
    again = forks.qkv("evaluate", long_run, *files, "--json")
    assert json.loads(again.stdout)["decoding"]["outputs_cut"]["count"] == 0
    assert again.stderr == ""


def test_a_comparison_tells_settings(long_run: Path, long_data: Path, scratch: Path, forks: Forks) -> None:
    files = ("--src", long_data / "dev.src", "--ref", long_data / "dev.tgt", "--metrics", "exact")
    page = scratch / "report.html"
    ended = forks.qkv(
        "compare", long_data / "dev.tgt", long_run, "search=greedy", *files, "--html", page, "search.max_length=5"
    )
    assert f"{long_run}: 4 of 4 outputs were cut at 5 tokens" in ended.stderr
    assert f"Search of {long_run}: search.kind=greedy " in ended.stdout
    assert "4 of 4 outputs were cut" in page.read_text(encoding="utf-8")


def test_translate_names_the_key(long_run: Path, long_data: Path, forks: Forks) -> None:
    ended = forks.qkv("translate", long_run, "search.max_length=5", "--input", long_data / "dev.src")
    assert "dev.src:1: the output was stopped after 5 tokens; search.max_length sets another limit" in ended.stderr


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (["search.max_factor=0", "search.max_extra=5"], "search.max_factor and search.max_extra set another limit"),
        (["search.max_factor=0", "search.max_extra=9", "search.max_length=5"], "search.max_length sets another limit"),
    ],
)
def test_translate_names_the_key_that_cut(
    settings: list[str], advice: str, long_run: Path, long_data: Path, forks: Forks
) -> None:
    ended = forks.qkv("translate", long_run, *settings, "--input", long_data / "dev.src")
    assert f"dev.src:1: the output was stopped after 5 tokens; {advice}" in ended.stderr
    ended = forks.qkv(
        "evaluate", long_run, *settings[:2], "--src", long_data / "dev.src", "--ref", long_data / "dev.tgt", "--json"
    )
    assert json.loads(ended.stdout)["decoding"]["outputs_cut"]["key"] == "search.max_factor"
