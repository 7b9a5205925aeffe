"""The demonstration knows how far it has come, and shows what it found."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from qkv.cli.app import app
from qkv.core.errors import CorruptFolder, UsageError
from qkv.core.files import MANIFEST, read_manifest, write_manifest
from qkv.core.progress import SilentReporter
from qkv.demo.desk import Desk, Screen
from qkv.demo.folder import DemoFolder
from qkv.demo.report import report_lines
from qkv.evaluation.metrics.registry import METRICS
from qkv.visual.alignment.text import ASCII, BLOCKS


def test_measured_once_and_then_known(place: DemoFolder) -> None:
    assert place.is_trained()
    assert place.results() is None
    results = place.measure(SilentReporter())
    assert place.results() == results
    assert (results.updates, results.minutes, results.learned, results.held_out) == (7, 4.25, 4, 2)
    test = place.test()
    outputs = [found.text for found in Desk(place, Screen()).pronounce(test.sources or [])]
    for name in ("g2p_wer", "per"):
        figure = results.scores[name]
        assert figure.score == METRICS[name].score(outputs, test.references)
        assert figure.low <= figure.score <= figure.high


def test_results_under_an_old_name_are_measured_again(place: DemoFolder) -> None:
    place.measure(SilentReporter())
    kept = place.path / "results.json"
    kept.write_text(kept.read_text().replace("g2p_wer", "wer"))
    assert place.results() is None


def test_a_model_in_the_middle_of_its_training_is_not_trained(place: DemoFolder) -> None:
    state = next(place.run.checkpoints.glob("*/state.json"))
    state.write_text(json.dumps(json.loads(state.read_text()) | {"finished": False}))
    (state.parent / MANIFEST).unlink()
    write_manifest(state.parent, {"what": "checkpoint"})
    assert not place.is_trained()


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"scores": {"wer": 1}}'])
def test_results_that_cannot_be_read_are_as_if_not_there(place: DemoFolder, damage: str) -> None:
    place.measure(SilentReporter())
    (place.path / "results.json").write_text(damage)
    assert place.results() is None


def test_results_of_another_model_do_not_count(place: DemoFolder) -> None:
    results = place.measure(SilentReporter())
    assert results.model == read_manifest(place.run.best)["checksum"]
    changed = json.loads((place.path / "results.json").read_text()) | {"model": "another"}
    (place.path / "results.json").write_text(json.dumps(changed))
    assert place.results() is None
    place.measure(SilentReporter())
    shutil.rmtree(place.run.best)
    assert place.results() is None


def test_forgetting_leaves_nothing_but_the_words_and_not_while_somebody_trains(place: DemoFolder) -> None:
    place.measure(SilentReporter())
    with place.run.locked(), pytest.raises(UsageError, match="being trained"):
        place.forget()
    assert place.results() is not None
    place.forget()
    assert sorted(path.name for path in place.path.iterdir()) == ["qkv.json", "test.tsv", "train.tsv"]
    assert not place.is_trained()
    place.forget()


def test_a_run_that_was_stopped_goes_on_as_it_began(place: DemoFolder) -> None:
    """Its words stay those of the first call."""
    place.forget()
    new = place.trainer(minutes=3.0, words=None)
    assert (new.resuming, str(new.recipe.training.stop_after)) == (False, "3m")
    before = (place.path / "train.tsv").read_bytes()
    place.run.create()
    (place.run.checkpoints / "step-00000001").mkdir()
    (place.run.config).write_text("not looked at by what is tested here")
    with pytest.raises(CorruptFolder, match=r"config\.yaml"):
        place.trainer(minutes=1.0, words=100)
    assert (place.path / "train.tsv").read_bytes() == before


def test_the_report_has_scores_examples_and_a_picture(place: DemoFolder) -> None:
    results, desk = place.measure(SilentReporter()), Desk(place, Screen())
    report = report_lines(place, results, desk)
    wer = results.scores["g2p_wer"]
    assert report[0].startswith("2 words that the model has not seen, after 4.25 minutes (7 updates) with 4 others")
    assert f"WER {wer.score:4.1f} %" in report[1]
    for word in ("cab", "dab"):
        assert any(line.startswith((f"{word}: right", f"{word}: wrong")) for line in report)
    assert report[report.index("Which letters of cab the model looked at for each phoneme:") + 1].split() == list("cab")
    assert str(place.run.best) in report[-2]


def test_stopped_while_measuring_it_goes_on_with_measuring(place: DemoFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def unexpected(*_: object) -> None:
        raise AssertionError("it was trained before")

    monkeypatch.setattr(DemoFolder, "trainer", unexpected)
    with monkeypatch.context() as patch:
        patch.setattr(DemoFolder, "measure", interrupted)
        stopped = CliRunner().invoke(app, ["demo", "--folder", str(place.path)])
    assert (stopped.exit_code, stopped.stdout) == (130, "")
    assert stopped.stderr.splitlines()[-1] == "stopped; resume with the same command"
    ended = CliRunner().invoke(app, ["demo", "--folder", str(place.path)])
    assert ended.exit_code == 0, ended.output
    assert "2 words that the model has not seen" in ended.stdout
    again = CliRunner().invoke(app, ["demo", "--folder", str(place.path)])
    assert again.stdout == ended.stdout
    assert "has a trained model; add --again" in again.stderr


def test_an_output_without_block_characters_gets_a_plain_picture(place: DemoFolder) -> None:
    shown = {
        name: CliRunner(charset=name).invoke(app, ["demo", "--folder", str(place.path)]) for name in ("utf-8", "ascii")
    }
    assert [ended.exit_code for ended in shown.values()] == [0, 0]
    assert not shown["utf-8"].stdout.isascii()
    assert shown["utf-8"].stdout.translate(str.maketrans(BLOCKS, ASCII)) == shown["ascii"].stdout


@pytest.mark.parametrize(
    "damaged", ["run/best/model.safetensors", "run/checkpoints/step-00000007/state.json", "train.tsv", "test.tsv"]
)
def test_of_a_damaged_demonstration_it_says_how_to_begin_anew(place: DemoFolder, damaged: str) -> None:
    (place.path / damaged).write_text("{")
    ended = CliRunner().invoke(app, ["demo", "--folder", str(place.path)])
    assert isinstance(ended.exception, CorruptFolder)
    assert str(ended.exception).startswith(f"{place.path}: is damaged ({place.path}")
    assert str(ended.exception).endswith("; add --again to train a new model")


def test_a_demonstration_without_its_words_is_damaged(place: DemoFolder) -> None:
    place.measure(SilentReporter())
    (place.path / "train.tsv").unlink()
    ended = CliRunner().invoke(app, ["demo", "--folder", str(place.path)])
    assert isinstance(ended.exception, CorruptFolder)
    assert "no such file" in str(ended.exception)
