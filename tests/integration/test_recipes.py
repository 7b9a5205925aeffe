"""The recipes that come with the package: found by name from anywhere, but never in place of a file that is there."""

import subprocess
import sys
from pathlib import Path

import pytest

from qkv.config import load_config
from qkv.recipes import load_recipe, recipe_names, recipe_text, title
from qkv.recipes.init import new_recipe
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder
from tests.support.forks import Forks

ROOT = Path(__file__).parents[2]


def test_list_show_and_copy(forks: Forks, scratch: Path) -> None:
    listed = forks.qkv("recipe", "list", cwd=scratch)
    assert listed.code == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()] == recipe_names()
    assert f"  {title('reverse')}\n" in listed.stdout
    assert forks.qkv("recipe", "show", "reverse", cwd=scratch).stdout == recipe_text("reverse")

    assert forks.qkv("recipe", "copy", "reverse", cwd=scratch).stdout == ""
    assert (scratch / "reverse.yaml").read_text() == recipe_text("reverse")
    again = forks.qkv("recipe", "copy", "reverse", cwd=scratch)
    assert (again.code, again.complaint) == (2, "reverse.yaml: exists already; name another file")
    (scratch / "folder").mkdir()
    assert forks.qkv("recipe", "copy", "copy", "folder", cwd=scratch).code == 0
    assert forks.qkv("recipe", "copy", "copy", "mine.yaml", cwd=scratch).code == 0
    assert (scratch / "folder" / "copy.yaml").read_text() == (scratch / "mine.yaml").read_text() == recipe_text("copy")


def test_an_unknown_name(forks: Forks, scratch: Path) -> None:
    for command in (["recipe", "show", "revrse"], ["train", "revrse"], ["data", "check", "revrse"]):
        ended = forks.qkv(*command, cwd=scratch)
        assert ended.code == 2
        assert ended.complaint.startswith('revrse: no recipe of qkv has this name; did you mean "reverse"?')
    assert forks.qkv("train", "nowhere/reverse.yaml", cwd=scratch).complaint.startswith("nowhere/reverse.yaml: no such")


def test_train_by_name(forks: Forks, scratch: Path) -> None:
    program = ROOT / "examples" / "make_toy_data.py"
    subprocess.run([sys.executable, str(program), str(scratch / "toy" / "reverse"), "--pairs", "60"], check=True)
    ended = forks.qkv("train", "reverse", "training.stop_after=2u", "validation.every=2u", cwd=scratch)
    assert ended.code == 0, ended.stderr
    assert load_config(Recipe, scratch / "runs" / "reverse" / "config.yaml").model == load_recipe("reverse").model


def test_a_folder_does_not_hide_a_recipe(forks: Forks, scratch: Path) -> None:
    for name in ("reverse", "mine"):
        (scratch / name).mkdir()
    ended = forks.qkv("train", "reverse", cwd=scratch)
    assert "toy/reverse" in ended.complaint, "the recipe is found; the data that it names is not here"
    ended = forks.qkv("train", "mine", cwd=scratch)
    assert (ended.code, ended.complaint) == (2, "mine: is a folder; name a YAML file")


def test_a_run_in_place_of_a_recipe(forks: Forks, scratch: Path) -> None:
    RunFolder(scratch / "runs" / "x").create()
    (scratch / "runs" / "x" / "config.yaml").write_text(recipe_text("reverse"))
    ended = forks.qkv("train", "runs/x", cwd=scratch)
    wanted = "runs/x: is a run, not a recipe; resume it with: qkv train --resume runs/x"
    assert (ended.code, ended.complaint) == (2, wanted)


def test_init_and_train(forks: Forks, scratch: Path) -> None:
    (scratch / "pairs.csv").write_text("input,output\n" + "".join(f"w{n} b,B W{n}\n" for n in range(60)))
    ended = forks.qkv("init", "pairs.csv", cwd=scratch)
    assert (ended.code, ended.stdout) == (0, "")
    assert ended.stderr.endswith("qkv train recipe.yaml, and after that: qkv evaluate runs/pairs\n")
    again = forks.qkv("init", "pairs.csv", cwd=scratch)
    assert (again.code, again.complaint) == (2, "recipe.yaml: exists already; choose another name with --out")
    assert forks.qkv("init", "nowhere", "--out", "x.yaml", cwd=scratch).complaint.startswith("nowhere: no such file")
    trained = forks.qkv("train", "recipe.yaml", "training.stop_after=2u", "schedule.warmup=1", cwd=scratch)
    assert trained.code == 0, trained.stderr
    assert "advice:" not in trained.stderr
    assert (scratch / "runs" / "pairs" / "best").is_dir()


@pytest.mark.parametrize("name", ["reverse", "recipes/reverse.yaml"])
def test_a_file_of_the_same_name_wins(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_recipe(name).run == Path("runs/reverse")
    (tmp_path / "recipes").mkdir()
    (tmp_path / name).write_text(recipe_text("reverse"))
    assert load_recipe(name, ["run=runs/own"]).run == Path("runs/own")
    (tmp_path / name).write_text(recipe_text("copy"))
    assert load_recipe(name).run == Path("runs/copy")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_has_a_title(name: str) -> None:
    assert 10 < len(title(name)) < 120


def test_the_recipe_for_commands_is_what_init_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what was measured with the one holds for the other."""
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, str(ROOT / "examples" / "make_commands.py"), "commands"], check=True)
    text, _ = new_recipe([Path("commands")])
    (tmp_path / "recipe.yaml").write_text(text)
    assert load_recipe("recipe.yaml", ["run=runs/scan"]) == load_recipe("scan")
