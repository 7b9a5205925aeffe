"""`training.compile`: the same losses and gradients, the same names, few graphs, and runs that resume."""

import json
import shutil
from pathlib import Path

import pytest

from qkv.core.errors import UsageError
from qkv.training.step import compiled
from qkv.training.step.compiled import compile_model
from tests.support.commands import quiet
from tests.support.forks import Forks
from tests.support.searched import TOKENIZERS, small
from tests.support.small import small_model
from tests.support.tiny import assert_same, plain, write_recipe

PATIENCE = 600.0
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("what", ["layers", "all"])
def test_losses_and_gradients_are_those_of_other_passes(what: str, forks: Forks) -> None:
    found = json.loads(quiet(forks.call("tests.support.compiling:compare", what, "aot_eager", timeout=PATIENCE)))
    assert found["off"] < 1e-4
    assert found["same names"]
    if what == "layers":
        # One graph for the layers of the encoder and one for those of the decoder, whatever the shapes are.
        assert (found["graphs"], found["breaks"]) == (2, 0)


@pytest.mark.skipif(not any(map(shutil.which, compiled.COMPILERS)), reason="no C++ compiler")
def test_by_the_compiler_that_users_have(forks: Forks) -> None:
    found = json.loads(quiet(forks.call("tests.support.compiling:compare", "layers", "inductor", timeout=PATIENCE)))
    assert found["off"] < 1e-3
    assert found["graphs"] == 2


def test_a_resumed_run_is_the_uninterrupted_one(data: Path, scratch: Path, forks: Forks) -> None:
    """Bit for bit, with dropout; and it validates and saves as any other. Batches of new lengths need few graphs: one
    for each side, and one more for sides of equal length."""
    for name, stops in (("straight", [8]), ("resumed", [4, 8])):
        for number, stop in enumerate(stops):
            wanted = plain(data, scratch / name, stop)
            wanted["training"] = {**wanted["training"], "compile": "layers"}
            recipe = write_recipe(scratch / f"{name}.yaml", wanted)
            graphs = quiet(forks.call("tests.support.compiling:train", str(recipe), number > 0, timeout=PATIENCE))
            assert 2 <= int(graphs) <= 4
    assert_same(scratch / "resumed", scratch / "straight")


def test_what_cannot_be_compiled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"training.compile layers: model.stack reversible has no layers"):
        compile_model(small_model(stack="reversible", residual="pre"), "layers")
    with pytest.raises(UsageError, match=r"training.compile layers: model.kind recurrent has no layers"):
        compile_model(small("recurrent").build(TOKENIZERS), "layers")
    monkeypatch.setattr(compiled, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(UsageError, match=r"training.compile all: no C\+\+ compiler is installed"):
        compile_model(small_model(), "all")
    compile_model(small_model(), "off")
