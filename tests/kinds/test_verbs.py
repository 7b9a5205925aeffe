"""Every verb that reads a model, on every kind: done, or refused by the name of the kind."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer.main
from typer.testing import CliRunner, Result

from qkv.cli.app import app
from qkv.core.errors import UsageError
from qkv.models.kinds import models
from qkv.training.run.folder import RunFolder
from qkv.training.trainer import Trainer
from tests.support.every_model import recipe

FILES = {
    "texts": "aa ab ba\nbb aa\n",
    "targets": "ba ab aa\naa bb\n",
    "pairs.tsv": "aa ab ba\tba ab aa\nbb aa\taa bb\n",
    "series.csv": "one,two\n" + "".join(f"{number % 7},{number % 5}\n" for number in range(40)),
}


def asked(what: str) -> list[str]:
    """The kinds that are asked for this (`ModelConfig.asked`)."""
    return [kind for kind in models.names() if models[kind].asked == what]


TRANSLATE = asked("translate")
TRANSFORMERS = ["transformer", "text_to_text"]
ENCODERS = [*TRANSFORMERS, "masked_lm", "classifier", "tagger"]
ATTENDING = [*TRANSFORMERS, "recurrent", "convolutional"]
VERBS: dict[str, list[str]] = {
    "translate MODEL --input texts": TRANSLATE,
    "score MODEL --src texts --tgt targets": TRANSLATE,
    "align MODEL --src texts --tgt targets": ATTENDING,
    "tune MODEL --data pairs.tsv": TRANSLATE,
    "evaluate MODEL --data pairs.tsv": [*TRANSLATE, *asked("label"), *asked("classify"), *asked("forecast")],
    "compare MODEL RUN --data pairs.tsv": TRANSLATE,
    "backtranslate MODEL --mono texts --out made": TRANSLATE,
    "distill MODEL --data pairs.tsv --out made": TRANSLATE,
    "serve MODEL": TRANSLATE,
    "attach MODEL MODEL --out made": TRANSFORMERS,
    "generate MODEL": asked("generate"),
    "perplexity MODEL texts": asked("generate"),
    "label MODEL": asked("label"),
    "classify MODEL --images texts": asked("classify"),
    "forecast MODEL --data series.csv": asked("forecast"),
    "embed MODEL --input texts": ENCODERS,
    "heads MODEL --data pairs.tsv": ENCODERS,
    "prune MODEL --data pairs.tsv --heads 1 --out made": TRANSFORMERS,
    "export MODEL --to ctranslate2 --out made": TRANSFORMERS,
    "export MODEL --to huggingface --out made": [*TRANSFORMERS, "causal_lm"],
    "export MODEL --to onnx --out made": TRANSFORMERS,
    "see MODEL aa --out made": TRANSLATE,
    "show beam MODEL aa --out made": TRANSLATE,
    "show passes MODEL aa --out made": ["transformer"],
    "show drafts MODEL aa --draft jacobi --out made": TRANSFORMERS,
    "show weights MODEL aa aa --out made": TRANSFORMERS,
    "show alignment MODEL aa aa --out made": ATTENDING,
    "show positions MODEL --out made": TRANSFORMERS,
    "show depth MODEL aa --out made": TRANSFORMERS,
    "show wiring MODEL --out made": TRANSFORMERS,
    "show mask MODEL --out made": TRANSFORMERS,
    "show attention MODEL --out made": TRANSFORMERS,
    "show image MODEL texts --out made": asked("classify"),
}
"""Commands, and the kinds that can do what they ask for if the other parts of the model allow it."""
EVERY_RUN = ["average RUN --last 1 --out made", "see RUN --out made", "show curves RUN --out made.svg"]
"""Commands for a run of any kind."""
OWN_WORDS = ("embed", "heads", "prune", "export", "show weights")
"""Verbs that say more than what the kind is for."""
MODELS = {"model", "models", "systems", "teacher", "drafter", "run", "runs"}
"""What verbs call the models that they read."""


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model of a kind; trained once, for a few updates."""
    made = dict[str, Path]()

    def found(kind: str) -> Path:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            plan = recipe(kind, next(iter(models[kind].learns)), folder, folder / "run")
            assert Trainer(plan).train().finished
            made[kind] = RunFolder(plan.run).best
        return made[kind]

    return found


def ended(command: str, model: Path, folder: Path) -> Result:
    """How a command for this model ended; its other files are in `folder`."""
    places = {"MODEL": model, "RUN": model.parent, **{name: folder / name for name in (*FILES, "made", "made.svg")}}
    arguments = [str(places.get(word, word)) for word in command.split()]
    # `qkv serve` sets up the logs of its process.
    with mock.patch.object(logging.root, "handlers", []):
        return CliRunner().invoke(app, arguments, input=FILES["texts"])


def is_named(kind: str, verb: str, sentence: str, model: Path) -> bool:
    """Whether a refusal is one sentence that names the kind; the usual one, unless the verb has its own."""
    if any(verb.startswith(own) for own in OWN_WORDS) or models[kind].asked in {models[k].asked for k in VERBS[verb]}:
        return f"kind {kind}" in sentence and "\n" not in sentence
    return sentence == f"{model}: is a model of the kind {kind}: {models[kind].answered_by}"


@pytest.mark.parametrize("kind", models.names())
def test_a_verb_that_does_not_apply_refuses_by_name(kind: str, model_of: Callable[[str], Path], tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    model, wrong = model_of(kind), dict[str, object]()
    for verb, kinds in VERBS.items():
        if kind not in kinds:
            end = ended(verb, model, tmp_path)
            if not isinstance(end.exception, UsageError) or not is_named(kind, verb, str(end.exception), model):
                wrong[verb] = end.exception or end.output
    assert not wrong
    assert {path.name for path in tmp_path.iterdir()} == set(FILES), "nothing was written"


@pytest.mark.parametrize("kind", models.names())
@pytest.mark.parametrize("verb", EVERY_RUN)
def test_a_run_of_any_kind_will_do(kind: str, verb: str, model_of: Callable[[str], Path], tmp_path: Path) -> None:
    assert ended(verb, model_of(kind), tmp_path).exit_code == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_every_verb_that_reads_a_model_is_tried() -> None:
    tried = {command.split(" MODEL")[0].split(" RUN")[0] for command in (*VERBS, *EVERY_RUN)}
    assert reading(typer.main.get_command(app)) == tried


def reading(command: Any, name: str = "") -> set[str]:
    """The verbs with an argument for a model."""
    if hasattr(command, "commands"):
        return {verb for word, inner in command.commands.items() for verb in reading(inner, f"{name} {word}".strip())}
    arguments = {each.name for each in command.params if each.param_type_name == "argument"}
    return {name} if arguments & MODELS else set()
