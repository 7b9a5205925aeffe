"""qkv tune: settings that are chosen on dev data, stored with the model, and used where nothing else is asked for."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from qkv.config import load_config
from qkv.core.errors import QkvError, UsageError
from qkv.core.files import read_manifest, verify_folder
from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.metrics.registry import METRICS
from qkv.evaluation.tune import tune
from qkv.models.saved.folder import CONFIG, SavedConfig, load_model, save_model
from qkv.search.beam import BeamConfig
from qkv.search.default import default_search
from qkv.search.greedy import GreedyConfig
from qkv.search.refinement.base import reader_for
from qkv.search.refinement.ctc import CtcReaderConfig
from qkv.search.refinement.search import RefineConfig
from qkv.training.run.folder import RunFolder
from qkv.training.run.recommend import recommend
from qkv.translate.settings import translation_config
from qkv.translate.translator import Translator
from tests.support.commands import quiet, refused
from tests.support.exported import decided_model
from tests.support.forks import Forks
from tests.support.long_outputs import LONG, SOURCES


@pytest.fixture
def run(long_run: Path, scratch: Path) -> Path:
    """A copy of the run, to be changed."""
    return Path(shutil.copytree(long_run, scratch / "run"))


CUT = {"kind": "beam", "max_length": 5}
"""A present search that every other one is better than."""


def store(run: Path, search: dict[str, Any]) -> None:
    recommend(run / "best", search, read_manifest(run / "best")["checksum"])


def settings_of(folder: Path) -> object:
    return load_config(SavedConfig, folder / CONFIG).search


def test_the_best_settings_are_stored_and_used(run: Path, scratch: Path, forks: Forks) -> None:
    """An output of five tokens is never right, so the other limit wins; the data is the run's own dev."""
    store(run, CUT)
    ended = forks.qkv("tune", run, "search.max_length=5,40", "search.size=2", "--metrics", "exact")
    assert quiet(ended).splitlines()[1:] == [
        "search.max_length  exact match  cut  seconds",
        *[line for line in ended.stdout.splitlines() if line.lstrip().startswith(("0.00 ", "5 ", "40 "))],
    ]
    best = [line for line in ended.stdout.splitlines() if line.endswith("best")]
    assert [line.split()[:3] for line in best] == [["40", "100.00", "0"]]
    assert settings_of(run / "best") == {"kind": "beam", "size": 2, "max_length": 40}
    verify_folder(run / "best")
    search = Translator(run).search
    assert isinstance(search, BeamConfig)
    assert (search.size, search.max_length, search.max_factor) == (2, 40, None)
    found = forks.qkv("evaluate", run, "--tsv", write_pairs(scratch), "--metrics", "exact", "--json")
    assert json.loads(found.stdout)["decoding"]["search"]["size"] == 2


def write_pairs(folder: Path) -> Path:
    pairs = [f"{word}\t{' '.join(f'{word[:2]}{place}' for place in range(LONG))}\n" for word in SOURCES]
    (folder / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    return folder / "pairs.tsv"


def test_a_dry_run_stores_nothing(run: Path, scratch: Path, long_data: Path, forks: Forks) -> None:
    before = load_config(SavedConfig, run / "best" / CONFIG)
    corpus = f"{{kind: text, src: {long_data / 'dev.src'}, tgt: {long_data / 'dev.tgt'}}}"
    for data in ("--data", corpus), ("--tsv", write_pairs(scratch)):
        ended = forks.qkv("tune", run, *data, "--dry-run", "--json", "--metrics", "exact", "--max-sources", "2")
        found = json.loads(quiet(ended))
        assert len(found["trials"]) == 13
        assert found["trials"][0]["present"]
        assert found["trials"][1]["settings"] == {"search.size": "1"}
        assert sum(trial["best"] for trial in found["trials"]) == 1
        assert "nothing was stored" in ended.stderr
    assert load_config(SavedConfig, run / "best" / CONFIG) == before


def test_what_happens_to_stored_settings(run: Path, scratch: Path, forks: Forks) -> None:
    """Saving and exporting keeps them; another run of training, and an average of other weights, do not."""
    chosen = {"kind": "beam", "size": 3, "length_penalty": {"kind": "power", "alpha": 0.5}}
    store(run, chosen)
    save_model(scratch / "again", load_model(run / "best"))
    quiet(forks.qkv("export", run, "--to", "ctranslate2", "--out", scratch / "fast"))
    quiet(forks.qkv("average", run, "--last", "1", "--out", scratch / "mean"))
    assert [settings_of(scratch / name) for name in ("again", "fast", "mean")] == [chosen, chosen, None]
    assert Translator(scratch / "fast").search == Translator(run).search
    assert Translator(load_model(run / "best")).search == Translator(run).search


def test_an_export_can_be_tuned(run: Path, scratch: Path, forks: Forks) -> None:
    store(run, CUT)
    quiet(forks.qkv("export", run, "--to", "ctranslate2", "--out", scratch / "fast"))
    settings = ("search.size=2,3", "--metrics", "exact")
    quiet(forks.qkv("tune", scratch / "fast", *settings, "--tsv", write_pairs(scratch)))
    assert settings_of(scratch / "fast") == {"kind": "beam", "size": 2}
    assert quiet(forks.qkv("translate", scratch / "fast", "--input", write_sources(scratch))).count("\n") == 4


def write_sources(folder: Path) -> Path:
    (folder / "src").write_text("".join(f"{word}\n" for word in SOURCES), encoding="utf-8")
    return folder / "src"


def test_what_is_asked_for_comes_first(run: Path) -> None:
    store(run, {"kind": "beam", "size": 3, "length_penalty": {"kind": "power", "alpha": 0.5}})
    kept = translation_config(["search.size=4"], run).search
    assert kept == BeamConfig(size=4, length_penalty={"kind": "power", "alpha": 0.5})
    other = translation_config(["search.length_penalty.kind=none"], run).search
    assert other == BeamConfig(size=3, length_penalty={"kind": "none"})
    assert translation_config(["search=greedy"], run).search == GreedyConfig()
    assert translation_config(["search.kind=beam"], run).search == BeamConfig()


def test_a_model_that_writes_all_at_once(scratch: Path, forks: Forks) -> None:
    save_model(scratch / "ctc", decided_model(decoder={"kind": "ctc"}))
    silent = {"kind": "refine", "blank_penalty": -50.0}
    recommend(scratch / "ctc", silent, read_manifest(scratch / "ctc")["checksum"])
    lines = "".join(f"w00{place} w010\tw00{place}\n" for place in range(4))
    (scratch / "pairs.tsv").write_text(lines, encoding="utf-8")
    settings = ("search.blank_penalty=-1,0,1", "--tsv", scratch / "pairs.tsv", "--metrics", "chrf", "--engine", "torch")
    quiet(forks.qkv("tune", scratch / "ctc", *settings))
    search = default_search(scratch / "ctc")
    assert isinstance(search, RefineConfig)
    reader = reader_for(search.reader, "ctc")
    assert isinstance(reader, CtcReaderConfig)
    assert reader.blank_penalty in (-1, 0, 1)
    stored = settings_of(scratch / "ctc")
    assert stored == {"kind": "refine", "blank_penalty": reader.blank_penalty}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search.size=2,x"], "search.size=x"),
        (["search.sice=2,3"], "size"),
        (["batch_tokens=2,3"], "only keys of search are tuned"),
        (["search.size="], "give a key and values"),
        (["search.kind=refine"], "is not for model.decoder autoregressive"),
    ],
)
def test_mistakes_are_told_before_anything_is_decoded(
    arguments: list[str], said: str, long_run: Path, scratch: Path, forks: Forks
) -> None:
    write_pairs(scratch)
    assert said in refused(forks.qkv("tune", long_run, *arguments, "--tsv", "pairs.tsv", cwd=scratch), 2)


def test_no_data_at_all(long_run: Path, scratch: Path, forks: Forks) -> None:
    save_model(scratch / "alone", load_model(long_run / "best"))
    assert "give the data by --data FILE" in refused(forks.qkv("tune", scratch / "alone"), 2)


@pytest.mark.parametrize("search", [{"kind": "refine"}, {"kind": "beam", "size": 0}, {"size": 3}])
def test_stored_settings_that_cannot_be(search: dict[str, Any], run: Path, forks: Forks) -> None:
    store(run, search)
    ended = forks.qkv("translate", run, "--input", run / CONFIG)
    assert f"{run / 'best' / CONFIG}: search" in refused(ended, 2)


def test_a_model_that_was_replaced_meanwhile_is_left_alone(run: Path) -> None:
    before = read_manifest(run / "best")["checksum"]
    store(run, {"kind": "beam", "size": 2})
    with pytest.raises(QkvError, match="was replaced while it was tuned"):
        recommend(run / "best", {"kind": "beam", "size": 3}, before)
    assert settings_of(run / "best") == {"kind": "beam", "size": 2}


def test_a_run_in_training_is_not_changed(run: Path, forks: Forks) -> None:
    with RunFolder(run).locked():
        assert "is being trained by process" in refused(forks.qkv("tune", run, "search.size=2,3"), 2)


def test_a_training_that_began_meanwhile_is_not_disturbed(run: Path) -> None:
    """It could save a better model between the look at the old one and the swap."""
    before = settings_of(run / "best")
    with RunFolder(run).locked(), pytest.raises(UsageError, match="is being trained by process"):
        store(run, {"kind": "beam", "size": 3})
    assert settings_of(run / "best") == before


@pytest.mark.parametrize("present", [None, {"kind": "beam", "size": 3}])
def test_equal_scores_keep_the_present_settings(
    present: dict[str, Any] | None, run: Path, scratch: Path, forks: Forks
) -> None:
    if present:
        store(run, present)
    before = read_manifest(run / "best")["checksum"]
    ended = forks.qkv("tune", run, "search.size=1,2,3", "--metrics", "exact", "--tsv", write_pairs(scratch))
    (best,) = (line.split() for line in quiet(ended).splitlines() if line.endswith("best"))
    assert best[-2:] == ["present,", "best"]
    assert (best[0] == "3") == bool(present)
    assert "nothing was stored: no other settings are better" in ended.stderr
    assert settings_of(run / "best") == present
    assert read_manifest(run / "best")["checksum"] == before


@pytest.mark.parametrize("sources", [1, 3])
def test_progress_ends_at_its_total(sources: int, run: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    test = EvaluationSet("dev", [["a"]] * sources, list(SOURCES[:sources]))
    points = [{"search.size": "1"}, {"search.size": "2"}]
    tune(Translator(run), test, [METRICS["exact"]], {}, points, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_only_what_is_stored_is_named(run: Path, scratch: Path, forks: Forks) -> None:
    store(run, CUT)
    settings = ("search.size=2,3", "batch_tokens=512", "--metrics", "exact", "--tsv", write_pairs(scratch))
    ended = forks.qkv("tune", run, *settings)
    assert f"{run / 'best'}: uses search.kind=beam search.size=2 from now on" in ended.stderr
