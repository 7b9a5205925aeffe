"""What others build on: public names, verbs of the command line, recipes. A change here is a change of interface."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main

import qkv
from qkv.cli.app import app
from qkv.config import dump_config, load_config
from qkv.config.base import Kinds
from qkv.models.kinds import models
from qkv.training.recipe import Recipe

ROOT = Path(__file__).parents[2]
RECIPES = sorted([*(ROOT / "qkv" / "recipes").rglob("*.yaml"), *(ROOT / "examples").rglob("*.yaml")])
NAMES = [
    "Attention",
    "AttentionConfig",
    "AttentionContext",
    "AttentionRecord",
    "Decoder",
    "Encoder",
    "FeedForward",
    "InsideView",
    "Metric",
    "MultiHeadAttention",
    "PatchEmbedding",
    "PatchForecaster",
    "Positions",
    "PositionsConfig",
    "QkvError",
    "Recipe",
    "Rope",
    "SilentTrainingReporter",
    "Sinusoidal",
    "Trainer",
    "Transformer",
    "Translation",
    "Translator",
    "VisionTransformer",
    "attentions",
    "capture_attention",
    "load_config",
    "load_model",
    "look_inside",
    "optimizers",
    "positions",
    "recipe_for",
    "register_metric",
    "save_model",
    "schedules",
    "score",
    "train",
]
VERBS = {
    "align": [
        "model",
        "--src",
        "--tgt",
        "--layer",
        "--head",
        "--shifted",
        "--gold",
        "--format",
        "--figure",
        "--invalid-utf8",
    ],
    "attach": ["model", "drafter", "--out"],
    "average": ["run", "--out", "--last", "--best"],
    "backtranslate": [
        "model",
        "overrides",
        "--mono",
        "--out",
        "--tag",
        "--with",
        "--engine",
        "--beam",
        "--workers",
        "--restart",
        "--on",
    ],
    "classify": ["model", "--images", "--json"],
    "compare": [
        "systems",
        "--data",
        "--src",
        "--ref",
        "--tsv",
        "--split",
        "--engine",
        "--beam",
        "--metrics",
        "--lang",
        "--html",
        "--examples",
        "--json",
    ],
    "config reference": [],
    "config schema": [],
    "config show": ["recipe", "overrides"],
    "data check": ["recipe", "overrides", "--json"],
    "data modality": ["--src", "--tgt", "--tokenizers", "--pairs", "--json"],
    "demo": ["--folder", "--minutes", "--words", "--again"],
    "distill": [
        "teacher",
        "overrides",
        "--data",
        "--src",
        "--tgt",
        "--out",
        "--closest",
        "--with",
        "--engine",
        "--beam",
        "--workers",
        "--restart",
        "--on",
    ],
    "doctor": ["--device", "--json"],
    "evaluate": [
        "model",
        "overrides",
        "--data",
        "--src",
        "--ref",
        "--tsv",
        "--split",
        "--hyp",
        "--with",
        "--engine",
        "--device",
        "--beam",
        "--train",
        "--metrics",
        "--lang",
        "--out",
        "--html",
        "--examples",
        "--json",
        "--on",
    ],
    "export": ["model", "--to", "--out", "--quantization", "--sample"],
    "forecast": ["model", "--data", "--json"],
    "heads": [
        "model",
        "--data",
        "--pairs",
        "--remove",
        "--curve",
        "--decode",
        "--metrics",
        "--lang",
        "--html",
        "--json",
    ],
    "init": ["data", "--out"],
    "keys": ["file", "name", "--per-minute"],
    "pretrained copy": ["name", "dest"],
    "pretrained list": [],
    "pretrained show": ["name"],
    "prune": ["model", "--out", "--heads", "--loss", "--data", "--pairs", "--decode", "--metrics", "--lang"],
    "recipe copy": ["name", "dest"],
    "recipe list": [],
    "recipe show": ["name"],
    "score": ["model", "--src", "--tgt", "--data", "--with", "--device", "--json", "--invalid-utf8"],
    "see": ["model", "text", "overrides", "--out", "--compare", "--format"],
    "serve": ["models", "--config"],
    "show alignment": ["model", "src", "tgt", "--layer", "--head", "--out"],
    "show curves": ["runs", "--number", "--out"],
    "show heads": ["analysis", "--side", "--out"],
    "show lengths": ["evaluations", "--metric", "--out"],
    "show schedules": ["recipe", "--updates", "--width", "--out"],
    "show sinusoids": ["--length", "--width", "--out"],
    "show speed": ["table", "--lower", "--out"],
    "show weights": ["model", "src", "tgt", "--side", "--layer", "--out"],
    "show attention": ["model", "--length", "--out"],
    "show mask": ["model", "--length", "--out"],
    "show beam": ["model", "text", "overrides", "--out"],
    "show depth": ["model", "text", "--out"],
    "show drafts": ["model", "text", "overrides", "--draft", "--out"],
    "show image": ["model", "file", "--out"],
    "show passes": ["model", "text", "overrides", "--out"],
    "show positions": ["model", "--length", "--out"],
    "show wiring": ["model", "--out"],
    "tokenizer encode": ["folder", "--side"],
    "tokenizer train": ["recipe", "overrides", "--out"],
    "train": ["recipe", "overrides", "--resume", "--device"],
    "translate": [
        "model",
        "overrides",
        "--input",
        "--output",
        "--restart",
        "--on",
        "--column",
        "--rows-per-shard",
        "--with",
        "--engine",
        "--device",
        "--precision",
        "--static-shapes",
        "--beam",
        "--draft",
        "--length-factor",
        "--nbest",
        "--scores",
        "--json",
        "--alignment",
        "--layer",
        "--head",
        "--shifted",
        "--copies",
        "--prefix-file",
        "--workers",
        "--invalid-utf8",
    ],
    "tune": [
        "model",
        "settings",
        "--data",
        "--src",
        "--ref",
        "--tsv",
        "--engine",
        "--metrics",
        "--lang",
        "--max-sources",
        "--dry-run",
        "--json",
    ],
    "generate": ["model", "overrides", "--prompt", "--max-tokens", "--nbest", "--json", "--invalid-utf8"],
    "import": ["folder", "--out"],
    "perplexity": ["model", "file", "--whole", "--window", "--stride", "--json"],
    "embed": [
        "model",
        "--input",
        "--output",
        "--pooling",
        "--normalize",
        "--format",
        "--invalid-utf8",
        "--on",
        "--column",
        "--rows-per-shard",
        "--workers",
        "--restart",
    ],
    "label": ["model", "--json", "--invalid-utf8"],
}


def test_version() -> None:
    assert qkv.__version__ == version("qkv")


def test_public_names() -> None:
    assert sorted(qkv.__all__) == NAMES
    for name in NAMES:
        thing = getattr(qkv, name)
        assert isinstance(thing, Kinds) or thing.__name__ == name
    assert set(NAMES) <= set(dir(qkv))
    with pytest.raises(AttributeError, match="no_such_name"):
        qkv.no_such_name  # noqa: B018  # reading it is the test


def test_public_names_are_listed_before_they_are_used() -> None:
    program = "import qkv, sys; print(*dir(qkv)); assert 'torch' not in sys.modules"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(NAMES) <= set(result.stdout.split())


def test_verbs_and_their_parameters() -> None:
    assert verbs(typer.main.get_command(app)) == VERBS


def verbs(command: Any, name: str = "") -> dict[str, list[str]]:
    if hasattr(command, "commands"):
        found = (verbs(inner, f"{name} {word}".strip()) for word, inner in command.commands.items())
        return {verb: parameters for group in found for verb, parameters in group.items()}
    options = [max(parameter.opts, key=len) for parameter in command.params if parameter.param_type_name == "option"]
    arguments = [parameter.name for parameter in command.params if parameter.param_type_name == "argument"]
    return {name: arguments + options}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_parameter_says_what_it_is(verb: str) -> None:
    command: Any = typer.main.get_command(app)
    for word in verb.split():
        command = command.commands[word]
    assert command.help
    assert all(parameter.help for parameter in command.params)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_parses_and_reads_back(path: Path, tmp_path: Path) -> None:
    recipe = load_config(Recipe, path)
    resolved = tmp_path / "config.yaml"
    resolved.write_text(dump_config(recipe), encoding="utf-8")
    assert load_config(Recipe, resolved) == recipe
    assert path.read_text(encoding="utf-8").startswith("#"), "begin with what the recipe is and how to run it"


def test_every_kind_of_model_has_a_recipe() -> None:
    assert {load_config(Recipe, path).model.kind for path in RECIPES} == set(models.names())
