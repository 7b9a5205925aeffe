"""A recipe that `qkv init` writes fits its data: it parses, has nothing to advise, and chooses the right tokens."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qkv.config import load_config
from qkv.core.errors import DataError
from qkv.data.check import DataReport
from qkv.evaluation.files import read_evaluation_set
from qkv.evaluation.metrics.default import default_metrics
from qkv.recipes.init import new_recipe
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.setup.inspect_data import inspect_data

Pairs = Iterator[tuple[str, str]]
ONSETS, VOWELS = ["b", "d", "k", "l", "m", "n", "p", "st", "tr"], ["a", "e", "i", "o", "u", "ai"]


def word(draw: random.Random, syllables: int) -> str:
    return "".join(draw.choice(ONSETS) + draw.choice(VOWELS) for _ in range(syllables))


def sentences(count: int) -> Pairs:
    """New words keep coming."""
    draw = random.Random(1)
    common = [word(draw, 2) for _ in range(200)]
    for _ in range(count):
        text = [draw.choice(common) if draw.random() < 0.9 else word(draw, 3) for _ in range(draw.randint(4, 12))]
        yield " ".join(text) + ".", " ".join(reversed(text)) + "."


def commands(count: int) -> Pairs:
    draw = random.Random(1)
    for _ in range(count):
        acts = [draw.choice(["walk", "run", "jump", "look"]) for _ in range(draw.randint(2, 5))]
        yield " and ".join(acts), " ".join(act.upper() for act in acts)


def sounds(count: int) -> Pairs:
    draw = random.Random(1)
    for _ in range(count):
        spelled = word(draw, draw.randint(2, 4))
        yield spelled, " ".join(spelled.upper())


def spellings(count: int) -> Pairs:
    draw = random.Random(1)
    for _ in range(count):
        spelled = word(draw, draw.randint(2, 4))
        yield spelled, spelled[::-1]


def dates(count: int) -> Pairs:
    draw = random.Random(1)
    for _ in range(count):
        day, month, year = draw.randint(1, 28), draw.randint(1, 12), draw.randint(1000, 2999)
        yield f"{day}. {month}. {year}", f"{year}-{month:02d}-{day:02d}"


def written(path: Path, pairs: Pairs) -> Path:
    path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    return path


def recipe_for(data: Path, out: Path) -> Recipe:
    text, run = new_recipe([data])
    out.write_text(text, encoding="utf-8")
    recipe = load_config(Recipe, out)
    assert recipe.run == run
    return recipe


def kinds(recipe: Recipe) -> dict[str, str]:
    return {name: side["kind"] for name, side in recipe.text.model_dump(exclude_none=True).items()}


TASKS: list[tuple[Callable[[int], Pairs], dict[str, str], list[str]]] = [
    (sentences, {"shared": "bpe"}, ["bleu", "chrf", "ter"]),
    (commands, {"src": "whitespace", "tgt": "whitespace"}, ["exact", "wer"]),
    (sounds, {"src": "char", "tgt": "whitespace"}, ["g2p_wer", "per"]),
    (spellings, {"shared": "char"}, ["exact", "cer"]),
    (dates, {"shared": "char"}, ["exact", "cer"]),
]


@pytest.mark.parametrize("count", [300, 3000])
@pytest.mark.parametrize(("task", "tokens", "metrics"), TASKS, ids=lambda value: getattr(value, "__name__", None))
def test_what_fits(
    task: Callable[[int], Pairs], tokens: dict[str, str], metrics: list[str], count: int, tmp_path: Path
) -> None:
    recipe = recipe_for(written(tmp_path / "pairs.tsv", task(count)), tmp_path / "recipe.yaml")
    assert kinds(recipe) == tokens
    assert recipe.validation.metrics == metrics
    assert recipe.validation.best == metrics[0]
    assert recipe.data.holdout == {300: 50, 3000: 150}[count]
    report = inspect_data(recipe, SilentTrainingReporter().counting)
    assert isinstance(report, DataReport)
    assert report.advice == []
    assert report.parts["train"].store.too_long == 0


@pytest.mark.parametrize("task", [task for task, _, _ in TASKS])
def test_validation_measures_what_evaluation_does(task: Callable[[int], Pairs], tmp_path: Path) -> None:
    recipe = recipe_for(written(tmp_path / "pairs.tsv", task(300)), tmp_path / "recipe.yaml")
    test = read_evaluation_set([], None, tmp_path / "pairs.tsv")
    assert recipe.validation.metrics == default_metrics(test.references, test.sources).names


SCRIPTS = {"thai": 0x0E01, "lao": 0x0E81, "burmese": 0x1000, "khmer": 0x1780, "japanese": 0x3042, "chinese": 0x4E00}


@pytest.mark.parametrize("first", SCRIPTS.values(), ids=list(SCRIPTS))
def test_scripts_without_spaces(first: int, tmp_path: Path) -> None:
    draw = random.Random(1)
    letters = [chr(first + n) for n in range(20)]
    pairs = ((src, "".join(draw.choices(letters, k=draw.randint(10, 30)))) for src, _ in sentences(300))
    recipe = recipe_for(written(tmp_path / "pairs.tsv", pairs), tmp_path / "recipe.yaml")
    assert kinds(recipe) == {"src": "bpe", "tgt": "bpe"}
    assert recipe.validation.metrics == ["chrf", "cer"]


def test_a_few_words_of_another_script_do_not_count(tmp_path: Path) -> None:
    pairs = [("jump 跳", "JUMP"), *spellings(300)]
    recipe = recipe_for(written(tmp_path / "pairs.tsv", iter(pairs)), tmp_path / "recipe.yaml")
    assert kinds(recipe) == {"shared": "char"}


def test_every_choice_has_a_comment(tmp_path: Path) -> None:
    text, _ = new_recipe([written(tmp_path / "pairs.tsv", commands(200))])
    for key in ("holdout", "max_src_tokens", "src", "batch", "d_model", "dropout", "residual", "positions", "schedule"):
        (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{key}:")]
        assert "  # " in line, line


def test_more_data_makes_a_larger_model(tmp_path: Path) -> None:
    sizes = [
        recipe_for(written(tmp_path / "pairs.tsv", sentences(count)), tmp_path / f"{count}.yaml").model.d_model
        for count in (100, 10_000)
    ]
    assert sizes == [64, 128]


def test_long_texts_fit_into_limits_and_batches(tmp_path: Path) -> None:
    pairs = ((" ".join(["walk"] * n), " ".join(["WALK"] * n)) for n in range(300, 420))
    recipe = recipe_for(written(tmp_path / "pairs.tsv", pairs), tmp_path / "recipe.yaml")
    report = inspect_data(recipe, SilentTrainingReporter().counting)
    assert isinstance(report, DataReport)
    assert recipe.batch.tokens >= recipe.data.longest[0] >= 420
    assert report.parts["train"].store.too_long == 0


@pytest.mark.parametrize("name", ["my data, all {of} it", "yes", "1e5", "a # b"])
def test_names_that_yaml_would_misread(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    data = written(tmp_path / name / "train.tsv", commands(100))
    recipe = recipe_for(data, tmp_path / "recipe.yaml")
    assert recipe.data.root == tmp_path / name
    assert recipe.run == Path("runs", name)


def test_too_few_pairs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 3 pair"):
        new_recipe([written(tmp_path / "pairs.tsv", commands(3))])


REAL: list[tuple[list[str], dict[str, Any]]] = [
    (["sigmorphon2021-g2p/hun_train.tsv"], {"src": "char", "tgt": "whitespace"}),
    (["cmudict-g014b2b/g014b2b.train"], {"src": "char", "tgt": "whitespace"}),
    (["tatoeba-spa-eng"], {"shared": "bpe"}),
    (["multi30k/train.en", "multi30k/train.de"], {"shared": "bpe"}),
]


@pytest.mark.skipif("QKV_DATA" not in os.environ, reason="the corpora are not free to distribute")
@pytest.mark.parametrize(("names", "tokens"), REAL, ids=lambda value: value[0] if isinstance(value, list) else "")
def test_real_corpora(names: list[str], tokens: dict[str, str], tmp_path: Path) -> None:
    text, _ = new_recipe([Path(os.environ["QKV_DATA"]) / name for name in names])
    (tmp_path / "recipe.yaml").write_text(text)
    assert kinds(load_config(Recipe, tmp_path / "recipe.yaml")) == tokens
