"""Every verb that asks a model for something, on every kind: done, or refused by the name of the kind."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

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
VERBS: dict[str, tuple[str, list[str]]] = {
    "translate": ("translate", ["--input", "texts"]),
    "score": ("translate", ["--src", "texts", "--tgt", "targets"]),
    "align": ("translate", ["--src", "texts", "--tgt", "targets"]),
    "tune": ("translate", ["--data", "pairs.tsv"]),
    "backtranslate": ("translate", ["--mono", "texts", "--out", "made"]),
    "distill": ("translate", ["--data", "pairs.tsv", "--out", "made"]),
    "generate": ("generate", []),
    "perplexity": ("generate", ["texts"]),
    "label": ("label", []),
    "classify": ("classify", ["--images", "texts"]),
    "forecast": ("forecast", ["--data", "series.csv"]),
}
"""What each asks for (`ModelConfig.asked`), and arguments that would do."""


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


@pytest.mark.parametrize("kind", models.names())
def test_a_verb_that_does_not_apply_refuses_by_name(kind: str, model_of: Callable[[str], Path], tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    model, config = model_of(kind), models[kind]
    expected = f"{model}: is a model of the kind {kind}: {config.answered_by}"
    said = dict[str, str]()
    for verb, (asks, arguments) in VERBS.items():
        if asks != config.asked:
            given = [str(tmp_path / one) if one in (*FILES, "made") else one for one in arguments]
            ended = CliRunner().invoke(app, [verb, str(model), *given], input=FILES["texts"])
            said[verb] = str(ended.exception) if isinstance(ended.exception, UsageError) else repr(ended)
            assert not (tmp_path / "made").exists(), verb
    assert said == dict.fromkeys(said, expected)
