"""qkv evaluate and qkv compare: outputs in files, models, reports, and one sentence for each mistake."""

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from qkv.cli.app import app
from qkv.config import load_config
from qkv.core.errors import QkvError
from qkv.evaluation.metrics.registry import METRICS
from qkv.models.saved.folder import SavedConfig
from tests.support.forks import Forks
from tests.support.tiny import changed, plain, validations_of, write_data, write_recipe

REFERENCES = ["a dog runs", "the cat sleeps", "two men ride their bikes", "a woman reads a book"] * 5
GOOD = ["a dog runs", "the cat is sleeping", "two men ride their bikes", "a woman reads the book"] * 5
BAD = ["a dog", "cat sleep", "men ride bike", "woman read book"] * 5


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def files(scratch: Path) -> Path:
    for name, lines in (("ref", REFERENCES), ("good", GOOD), ("bad", BAD), ("src", [f"nr {n}" for n in range(20)])):
        write(scratch / name, lines)
    write(scratch / "pairs.tsv", ["read\tR EH D", "tomato\tT AH M EY T OW", "read\tR IY D", "tomato\tT AH M AA T OW"])
    return scratch


def train(run: Path, data: Path, forks: Forks, tokenizer: Any = "char") -> Path:
    """Four updates and one validation."""
    recipe = changed(
        plain(data, run, 4),
        data={"test": {"kind": "text", "src": "test.src", "tgt": "test.tgt"}},
        text={"shared": tokenizer},
        validation={"metrics": ["chrf", "ter", "bleu_tok_lc", "per"], "best": "bleu_tok_lc", "language": "de"},
    )
    ended = forks.qkv("train", write_recipe(run.with_suffix(".yaml"), recipe))
    assert ended.code == 0, ended.stderr
    return run


@pytest.fixture(scope="module")
def run(in_memory: Path, data: Path, forks: Forks) -> Path:
    return train(in_memory / "evaluate", data, forks)


def test_a_model_knows_the_lengths_of_its_sources(run: Path, data: Path, scratch: Path, forks: Forks) -> None:
    """END counted; its average knows them, too."""
    lengths = sorted(len(word) + 1 for word in (data / "train.src").read_text().split())
    assert forks.qkv("average", run, "--last", "1", "--out", scratch / "mean").code == 0
    for folder in (run / "best", scratch / "mean"):
        config = load_config(SavedConfig, folder / "config.yaml")
        assert config.longest_src == lengths[-1]
        assert config.median_src in lengths[29:31]


def test_a_first_line_that_may_be_a_header_is_pointed_out(scratch: Path, forks: Forks) -> None:
    """Also that the remedy works: with it there is one pair less, and nothing to remark."""
    table = write(scratch / "h.tsv", ["source\ttarget", "a dog\tein Hund", "a cat\teine Katze"])
    outputs = write(scratch / "outputs", ["target", "ein Hund", "eine Katze"])
    ended = forks.qkv("evaluate", "--hyp", outputs, "--data", table, "--metrics", "exact")
    assert ended.code == 0, ended.stderr
    assert f"{table}:1 looks like names of columns and is scored as a pair" in ended.stderr
    remedy = ended.stderr.split("'")[1]
    write(outputs, ["ein Hund", "eine Katze"])
    ended = forks.qkv("evaluate", "--hyp", outputs, "--data", remedy, "--metrics", "exact")
    assert ended.code == 0, ended.stderr
    assert "looks like names" not in ended.stderr


def test_unknown_words_of_the_sources_are_said(run: Path, scratch: Path, forks: Forks) -> None:
    """The model knows the letters a to h."""
    write(scratch / "pairs.tsv", ["abz\tzba", "ab\tba", "zz\tzz"])
    ended = forks.qkv("evaluate", run, "--tsv", scratch / "pairs.tsv", "--metrics", "exact", "--json")
    assert ended.code == 0, ended.stderr
    assert "2 of 3 sources have words or characters that the model does not know" in ended.stderr
    assert '"z" (3 times)' in ended.stderr
    assert json.loads(ended.stdout)["decoding"]["sources_unknown"] == {"count": 2, "words": {"z": 3}}


def test_outputs_in_a_file(files: Path, forks: Forks) -> None:
    ended = forks.qkv("evaluate", "--hyp", "good", "--ref", "ref", "--train", "ref", "--html", "r.html", cwd=files)
    assert ended.code == 0, ended.stderr
    bleu = METRICS["bleu"].score(GOOD, [[reference] for reference in REFERENCES])
    assert ended.stdout.startswith("20 outputs\nmetric  score")
    assert f"BLEU    {bleu:.2f}" in ended.stdout
    for words in ("By words in the reference", "Words by how often training had them", "TER: nrefs:1|case:lc|"):
        assert words in ended.stdout
    assert ended.stderr == "measured: bleu, chrf, ter, since ref holds sentences; --metrics chooses\n"
    page = (files / "r.html").read_text(encoding="utf-8")
    ET.fromstring(page)
    assert "Evaluation of good" in page


def test_json_and_chosen_metrics(files: Path, forks: Forks) -> None:
    arguments = ["--hyp", "good", "--ref", "ref", "--metrics", "exact, bleu_tok_lc", "--lang", "en", "--json"]
    ended = forks.qkv("evaluate", *arguments, cwd=files)
    found = json.loads(ended.stdout)
    assert list(found["scores"]) == ["exact", "bleu_tok_lc"]
    assert found["scores"]["exact"]["score"] == 50
    assert "tok:moses-en" in found["scores"]["bleu_tok_lc"]["signature"]


def test_a_table_with_several_right_answers(files: Path, forks: Forks) -> None:
    """Both words are right by their second answer; the outputs may be given for each line or for each word."""
    for lines in (["R IY D", "T AH M AA T OW"], ["R IY D", "T AH M AA T OW"] * 2):
        write(files / "out", lines)
        ended = forks.qkv("evaluate", "--hyp", "out", "--tsv", "pairs.tsv", "--json", cwd=files)
        found = json.loads(ended.stdout)
        assert {name: score["score"] for name, score in found["scores"].items()} == {"g2p_wer": 0, "per": 0}
        assert found["length_in"] == "letters in the source"


def test_several_references(files: Path, forks: Forks) -> None:
    ended = forks.qkv(
        "evaluate", "--hyp", "good", "--ref", "ref", "--ref", "good", "--metrics", "exact", "--json", cwd=files
    )
    assert json.loads(ended.stdout)["scores"]["exact"]["score"] == 100


def test_a_model(run: Path, data: Path, files: Path, forks: Forks) -> None:
    """The outputs that it keeps score the same; a run's folder stands for its best model."""
    sides = ["--src", data / "test.src", "--ref", data / "test.tgt", "--metrics", "chrf,per", "--json"]
    ended = forks.qkv("evaluate", run, *sides, "--beam", 2, "--engine", "torch", "--out", files / "out")
    assert ended.code == 0, ended.stderr
    outputs = (files / "out").read_text().splitlines()
    assert len(outputs) == 5
    again = forks.qkv("evaluate", "--hyp", files / "out", *sides)
    assert json.loads(again.stdout)["scores"] == json.loads(ended.stdout)["scores"]
    other = forks.qkv("evaluate", run / "best", "search.kind=greedy", *sides, "--with", run / "best")
    assert other.code == 0, other.stderr
    mistaken = forks.qkv("evaluate", run, "search.sise=3", *sides)
    assert mistaken.code == 2
    assert '"size"' in mistaken.complaint


def capitals(folder: Path) -> Path:
    """The data with capital letters in it."""
    for path in write_data(folder).iterdir():
        path.write_text(path.read_text(encoding="utf-8").title(), encoding="utf-8")
    return folder


@pytest.mark.parametrize("lowercase", [False, True])
def test_training_measures_with_the_same_code(lowercase: bool, scratch: Path, forks: Forks) -> None:
    """The scores of the last validation, which made the best model, are those of its greedy output on the dev data.

    The targets count as they stand there: a tokenizer that turns them to lower case cannot give back their capitals.
    """
    data = capitals(scratch / "capitals")
    run = train(scratch / "run", data, forks, {"kind": "char", "normalize": {"lowercase": lowercase}})
    (logged,) = validations_of(run)
    sides = ["--src", data / "dev.src", "--ref", data / "dev.tgt", "--lang", "de", "--json"]
    asked = ["--metrics", "chrf,ter,bleu_tok_lc,per", "--engine", "torch", "search.kind=greedy"]
    scores = json.loads(forks.qkv("evaluate", run, *sides, *asked).stdout)["scores"]
    assert list(scores) == ["chrf", "ter", "bleu_tok_lc", "per"]
    assert {name: logged[name] for name in scores} == pytest.approx({name: s["score"] for name, s in scores.items()})
    assert scores["per"]["score"] > 0
    assert scores["chrf"]["score"] > 0


def test_a_run_is_measured_on_its_own_data(run: Path, data: Path, files: Path, forks: Forks) -> None:
    """Both splits, or one; the same scores as with the files given, and on stderr which files these are."""
    asked = ["--metrics", "chrf,exact", "--json", "--engine", "torch"]
    ended = forks.qkv("evaluate", run, *asked, "--html", files / "r.html")
    assert ended.code == 0, ended.stderr
    own = json.loads(ended.stdout)
    assert list(own) == ["test", "dev"]
    for name in own:
        sides = [data / f"{name}.src", data / f"{name}.tgt"]
        assert f"{name} data of {run}: {sides[0]} and {sides[1]}\n" in ended.stderr
        given = forks.qkv("evaluate", run, "--src", sides[0], "--ref", sides[1], *asked)
        assert own[name]["scores"] == json.loads(given.stdout)["scores"]
        alone = forks.qkv("evaluate", run / "best", "--split", name, *asked, "--out", files / f"{name}.out")
        assert json.loads(alone.stdout) == {name: own[name]}
        assert len((files / f"{name}.out").read_text().splitlines()) == own[name]["outputs"]
    page = (files / "r.html").read_text(encoding="utf-8")
    assert f'<h2 class="part">dev: {data / "dev.src"} and {data / "dev.tgt"}</h2>' in page
    several = forks.qkv("evaluate", run, "--out", files / "o")
    assert several.code == 2
    assert "--out: there are several test sets (test, dev); choose one by --split" in several.complaint


def test_the_language_of_a_run_is_that_of_its_recipe(run: Path, data: Path, forks: Forks) -> None:
    asked = ["--metrics", "bleu_tok_lc", "--json", "--engine", "torch"]
    own = forks.qkv("evaluate", run, "--split", "dev", *asked)
    assert own.code == 0, own.stderr
    assert "tok:moses-de" in json.loads(own.stdout)["dev"]["scores"]["bleu_tok_lc"]["signature"]
    assert forks.qkv("evaluate", run, "--src", data / "dev.src", "--ref", data / "dev.tgt", *asked).code == 2


def test_tables_of_both_splits_and_usual_metrics(run: Path, forks: Forks) -> None:
    ended = forks.qkv("evaluate", run, "search.kind=greedy", "--engine", "torch")
    assert ended.code == 0, ended.stderr
    assert ended.stdout.startswith("test: 5 outputs\nmetric")
    assert "\ndev: 12 outputs\nmetric" in ended.stdout
    assert "exact match" in ended.stdout
    assert "CER" in ended.stdout
    assert "measured: exact, cer, since" in ended.stderr
    assert "holds single words; --metrics chooses" in ended.stderr


def test_runs_are_compared_on_the_test_data_of_the_first(run: Path, data: Path, files: Path, forks: Forks) -> None:
    asked = ["--metrics", "chrf", "--json", "--engine", "torch"]
    ended = forks.qkv("compare", run, data / "test.tgt", *asked)
    assert ended.code == 0, ended.stderr
    assert f"test data of {run}: {data / 'test.src'} and {data / 'test.tgt'}\n" in ended.stderr
    assert json.loads(ended.stdout)["outputs"] == 5
    dev = forks.qkv("compare", data / "dev.tgt", run, "--split", "dev", *asked)
    assert json.loads(dev.stdout)["outputs"] == 12


def test_a_run_with_other_test_data_is_noticed_in_a_comparison(
    run: Path, data: Path, scratch: Path, forks: Forks
) -> None:
    other = scratch / "other"
    shutil.copytree(run, other)
    asked = ["--metrics", "chrf", "--json", "--engine", "torch"]
    assert "was it trained on" not in forks.qkv("compare", run, other, *asked).stderr
    config = other / "config.yaml"
    config.write_text(config.read_text().replace("test.src", "train.src").replace("test.tgt", "train.tgt"))
    ended = forks.qkv("compare", run, other, *asked)
    assert ended.code == 0, ended.stderr
    assert f"{other}: its own recipe names {data / 'train.src'} and {data / 'train.tgt'} as data.test" in ended.stderr


def test_pairs_held_out_of_the_training_data_are_its_dev_data(data: Path, scratch: Path, forks: Forks) -> None:
    recipe = plain(data, scratch / "run", 4)
    recipe["data"] = {key: value for key, value in recipe["data"].items() if key != "dev"} | {"holdout": 6}
    assert forks.qkv("train", write_recipe(scratch / "r.yaml", recipe)).code == 0
    ended = forks.qkv("evaluate", scratch / "run", "--json", "--engine", "torch")
    assert ended.code == 0, ended.stderr
    assert json.loads(ended.stdout)["dev"]["outputs"] == 6
    missing = forks.qkv("evaluate", scratch / "run", "--split", "test")
    assert missing.code == 2
    assert "names no data.test; give the data by --data FILE" in missing.complaint


def test_data_that_moved(data: Path, scratch: Path, forks: Forks) -> None:
    moved = write_data(scratch / "data")
    assert forks.qkv("train", write_recipe(scratch / "r.yaml", plain(moved, scratch / "run", 4))).code == 0
    (moved / "dev.src").rename(moved / "gone")
    ended = forks.qkv("evaluate", scratch / "run")
    assert ended.code == 1
    assert f"{moved / 'dev.src'}: no such file, although" in ended.complaint
    assert "names it as data.dev" in ended.complaint


def test_every_verb_reads_what_training_reads(run: Path, data: Path, files: Path, forks: Forks) -> None:
    pairs = list(zip(*((data / f"test.{side}").read_text().split() for side in ("src", "tgt")), strict=True))
    write(files / "t.jsonl", [json.dumps({"en": src, "de": tgt}) for src, tgt in pairs])
    given = ["--data", f"{{kind: jsonl, path: {files / 't.jsonl'}, src: en, tgt: de}}"]
    sides = ["--src", data / "test.src", "--ref", data / "test.tgt"]
    asked = ["--metrics", "chrf", "--json", "--engine", "torch"]
    for verb in (["evaluate", run], ["compare", run, data / "test.src"]):
        one, other = (forks.qkv(*verb, *way, *asked) for way in (given, sides))
        assert one.code == 0, one.stderr
        assert json.loads(one.stdout) == json.loads(other.stdout)
    scored = forks.qkv("score", run, *given)
    assert scored.code == 0, scored.stderr
    assert scored.stdout == forks.qkv("score", run, "--src", data / "test.src", "--tgt", data / "test.tgt").stdout


def test_every_metric_is_in_the_help(forks: Forks) -> None:
    for verb in ("evaluate", "compare"):
        shown = forks.qkv(verb, "--help").stdout
        own = [name for name in METRICS if type(METRICS[name]).__module__.startswith("qkv.")]
        assert own
        assert all(name in shown for name in own), shown


def test_old_names_still_work_with_one_line_on_stderr(files: Path, forks: Forks) -> None:
    arguments = ["evaluate", "--hyp", "good", "--ref", "ref", "--json", "--metrics"]
    old = forks.qkv(*arguments, "accuracy", cwd=files)
    assert list(json.loads(old.stdout)["scores"]) == ["exact"]
    assert old.stderr == "the metric accuracy is now called exact\n"
    changed_meaning = forks.qkv(*arguments, "wer,per", cwd=files)
    assert changed_meaning.code == 0
    assert changed_meaning.stderr.count("\n") == 1
    assert "once called wer, is g2p_wer" in changed_meaning.stderr


def test_comparison(files: Path, forks: Forks) -> None:
    ended = forks.qkv("compare", "bad", "good", "ref", "--ref", "ref", "--src", "src", "--html", "c.html", cwd=files)
    assert ended.code == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if line.startswith("good ")]
    assert len(lines) == 3
    assert all(line.endswith(" better") for line in lines), ended.stdout
    page = (files / "c.html").read_text(encoding="utf-8")
    ET.fromstring(page)
    assert "Comparison of bad and good and ref" in page
    ended = forks.qkv("compare", "good", "bad", "--ref", "ref", "--metrics", "wer", "--json", cwd=files)
    found = json.loads(ended.stdout)["metrics"]["wer"]["systems"]["bad"]
    assert found["verdict"] == "worse"
    assert found["p_bootstrap"] < 0.05
    assert found["p_randomization"] < 0.05


def test_comparison_of_a_model_with_a_file(run: Path, data: Path, files: Path, forks: Forks) -> None:
    right = data / "test.tgt"
    sides = ["--src", data / "test.src", "--ref", right]
    ended = forks.qkv("compare", run, right, *sides, "--metrics", "exact", "--json", "--engine", "torch")
    assert ended.code == 0, ended.stderr
    systems = json.loads(ended.stdout)["metrics"]["exact"]["systems"]
    assert systems[str(right)]["score"] == 100


def test_settings_for_the_models_of_a_comparison(run: Path, data: Path, forks: Forks) -> None:
    sides = ["--src", data / "test.src", "--ref", data / "test.tgt", "--metrics", "chrf", "--json", "--engine", "torch"]
    found = []
    for settings in ([], ["search.min_length=9", "search.size=2"], ["search.min_length=9", "--beam", 2]):
        compared = forks.qkv("compare", run, data / "test.src", *settings, *sides)
        alone = forks.qkv("evaluate", run, *settings, *sides)
        score = json.loads(compared.stdout)["metrics"]["chrf"]["systems"][str(run)]["score"]
        assert score == json.loads(alone.stdout)["scores"]["chrf"]["score"]
        found.append(score)
    assert found[0] != found[1] == found[2]


@pytest.mark.parametrize("verb", [["evaluate", "--hyp"], ["compare", "bad"]])
def test_the_scores_are_shown_even_if_the_report_cannot_be_written(
    verb: list[str], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: str) -> None:
        raise QkvError(f"{path}: cannot be written (No space left on device)")

    monkeypatch.chdir(files)
    monkeypatch.setattr("qkv.core.files.write_atomic", full)
    ended = CliRunner().invoke(app, [*verb, "good", "--ref", "ref", "--metrics", "chrf", "--html", "r.html"])
    assert "No space left" in str(ended.exception)
    assert "chrF" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("evaluate --hyp good", 2, "give the references by --ref FILE"),
        ("evaluate --ref ref", 2, "give a model (qkv evaluate MODEL ...) or its outputs"),
        ("evaluate model --hyp good --ref ref", 2, "give a model (qkv evaluate MODEL ...) or its outputs"),
        ("evaluate --hyp short --ref ref", 1, "short: has 3 lines, but ref has 20"),
        ("evaluate --hyp good --ref ref --src short", 1, "short: has 3 lines, but ref has 20"),
        ("evaluate --hyp none --ref ref", 1, "none: no such file"),
        ("evaluate --hyp good --ref empty", 1, "empty: is empty"),
        ("evaluate --hyp binary --ref ref", 1, "binary:1:1: not valid UTF-8 text"),
        ("evaluate --hyp good --ref ref --metrics blue", 2, "there is no metric 'blue'"),
        ("evaluate --hyp good --ref ref --metrics bleu_tok_lc", 2, "--lang"),
        ("evaluate --hyp good --ref ref --lang xx", 2, "no rules for the language 'xx'"),
        ("evaluate --hyp good --ref ref --html none/r.html", 1, "none/r.html: cannot be written"),
        ("evaluate none --src src --ref ref --html none/r.html", 1, "none/r.html: cannot be written"),
        ("evaluate none --src src --ref ref --train missing", 1, "missing: no such file"),
        ("evaluate none --src src --ref ref --out none/o", 1, "none/o: cannot be written"),
        ("evaluate none --src src --ref ref --out folder", 2, "folder: is not a file; choose another name"),
        ("evaluate --hyp good --ref ref --beam 3 --engine torch", 2, "--engine, --beam: only for models"),
        ("evaluate --hyp good --ref ref --with model --out o", 2, "--with, --out: only for models"),
        ("evaluate none search.kind=greedy --src src --ref ref --beam 3", 2, "the search kind greedy has no beam"),
        ("evaluate none search=sample --src src --ref ref --beam 3", 2, "the search kind sample has no beam"),
        ("evaluate --hyp good --tsv ref", 1, "ref:1: has 1 column(s), so there is no column 1"),
        ("evaluate none --src src --ref ref", 1, "none: no such folder"),
        ("evaluate none --ref ref", 2, "give the sources by --src FILE"),
        ("evaluate none", 2, "none: is not a run, whose recipe would name test data; give the data by --data FILE"),
        ("evaluate none --split dev --ref ref", 2, "--split: chooses from a run's own data"),
        ("evaluate --hyp good --data ref", 2, "ref: the name does not say what kind of file it is"),
        ("evaluate --hyp good --data pairs.tsv --ref ref", 2, "--data and --tsv hold both sides"),
        ("evaluate --hyp good --data pairs.tsv --html pairs.tsv", 2, "pairs.tsv: is also an input"),
        ("compare good bad", 2, "nothing to compare with: give the references by --ref FILE"),
        ("score none", 2, "say what to score: --src FILE and --tgt FILE, or both sides by --data FILE"),
        ("score none --src src --data pairs.tsv", 2, "say what to score"),
        ("compare good --ref ref", 2, "give two different systems or more"),
        ("compare good good --ref ref", 2, "give two different systems or more"),
        ("compare good bad search.size=3 --ref ref", 2, "search.size=3: only for models"),
        ("compare good bad --ref ref --beam 3", 2, "--beam: only for models"),
        (
            "compare good folder search.kind=greedy --ref ref --src src --beam 3",
            2,
            "the search kind greedy has no beam",
        ),
        ("compare good folder search.kind=beam search.sise=3 --ref ref --src src", 2, '"size"'),
        ("compare none folder --ref ref --html none/c.html", 1, "none/c.html: cannot be written"),
        ("compare good none --ref ref", 1, "none: no such file"),
        ("compare good folder --ref ref --src src", 1, "folder: holds no model"),
    ],
)
def test_mistakes(arguments: str, code: int, words: str, files: Path, forks: Forks) -> None:
    write(files / "short", ["a", "b", "c"])
    write(files / "empty", [])
    (files / "binary").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (files / "folder").mkdir()
    ended = forks.qkv(*arguments.split(), cwd=files)
    assert ended.code == code, ended.stderr
    assert words in ended.complaint
    assert ended.stdout == ""


def test_remarks_go_to_stderr(files: Path, forks: Forks) -> None:
    write(files / "tokens", [*["this is it ."] * 19, ""])
    ended = forks.qkv("evaluate", "--hyp", "tokens", "--ref", "ref", "--metrics", "chrf", cwd=files)
    assert ended.code == 0
    assert "1 of 20 outputs are empty" in ended.stderr
    assert "full stop that stands alone" in ended.stderr
    assert "full stop" not in ended.stdout
