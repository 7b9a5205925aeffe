"""The examples in the docstrings of the public names are run."""

import contextlib
import copy
import doctest
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import qkv
from qkv.evaluation.metrics import registry
from qkv.training.progress import SilentTrainingReporter


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small run in `runs/reverse`, for which the examples have a use."""
    path = tmp_path_factory.mktemp("examples")
    pairs = [(word, word[::-1]) for word in ["abc", "bca", "cab", "acb", "bac", "cba", "aab", "abb", "bbc", "ca"]]
    with contextlib.chdir(path):
        qkv.train(
            pairs, reporter=SilentTrainingReporter(), run="runs/reverse", training__stop_after="2u", data__holdout=1
        )
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder of one example, whose metric is forgotten afterwards: other tests look at all of them."""
    monkeypatch.setattr(registry, "METRICS", copy.deepcopy(registry.METRICS))
    shutil.copytree(trained, tmp_path / "copy")
    with contextlib.chdir(tmp_path / "copy"):
        yield tmp_path / "copy"


def test_the_reference_lists_every_public_name() -> None:
    page = (Path(qkv.__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: qkv\.(\w+)$", page, re.M)) == sorted(qkv.__all__)


@pytest.mark.parametrize("name", qkv.__all__)
def test_every_public_name_has_an_example_that_runs(name: str, folder: Path) -> None:
    docstring = inspect.getdoc(getattr(qkv, name))
    assert docstring, f"qkv.{name} has no docstring"
    example = doctest.DocTestParser().get_doctest(docstring, {}, f"qkv.{name}", None, None)
    assert example.examples, f"qkv.{name}: show in the docstring how it is used, after >>>"
    output: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=output.append)
    assert not result.failed, "".join(output)
