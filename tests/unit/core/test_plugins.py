"""Kinds from other packages: named by a recipe, announced by an installed package, asked for by a model's folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.config import load_config, validate, write_yaml
from qkv.core.errors import UsageError
from qkv.core.plugins import TRUSTED
from qkv.layers.attention import attentions
from qkv.models.saved.folder import SavedConfig
from qkv.models.transformer.config import TransformerConfig
from qkv.training.recipe import Recipe
from tests.support.tiny import plain

KINDS = """
from typing import Literal
from qkv.layers.residual import residuals
from qkv.layers.residual.pre import PreNormConfig

@residuals.register
class {name}Config(PreNormConfig):
    kind: Literal["{kind}"] = "{kind}"
"""


def python(program: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """In a fresh process: a registration cannot be taken back."""
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


READ = """
from qkv.config import load_config
from qkv.training.recipe import Recipe
print(load_config(Recipe, "recipe.yaml").model.residual)
"""


def test_a_recipe_names_a_module_in_the_current_folder(tmp_path: Path) -> None:
    recipe = plain(tmp_path, tmp_path / "run")
    recipe["model"]["residual"] = "named_here"
    (tmp_path / "recipe.yaml").write_text(write_yaml(recipe), encoding="utf-8")
    assert "named_here" in python(READ, tmp_path).stderr.splitlines()[-1]
    (tmp_path / "my_kinds.py").write_text(KINDS.format(name="Here", kind="named_here"), encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(write_yaml({"imports": ["my_kinds"], **recipe}), encoding="utf-8")
    found = python(READ + "import os\nprint(os.environ['QKV_IMPORTS'])\n", tmp_path, QKV_IMPORTS="others")
    assert found.stdout == "kind='named_here'\nothers,my_kinds\n", found.stderr


def test_a_module_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    recipe = plain(tmp_path, tmp_path / "run") | {"imports": ["no_such_module_anywhere"]}
    with pytest.raises(UsageError, match="no_such_module_anywhere cannot be imported"):
        validate(Recipe, recipe, "recipe")


@pytest.mark.parametrize("imports", ["a_word", [1], {"a": 1}])
def test_what_is_no_list_of_names_is_refused(imports: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="imports"):
        validate(Recipe, plain(tmp_path, tmp_path / "run") | {"imports": imports}, "recipe")


def test_a_model_folder_does_not_choose_what_is_imported(tmp_path: Path) -> None:
    """`trap.py` would leave a file; nothing imports it before the user allows it."""
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\n", encoding="utf-8")
    (tmp_path / "config.yaml").write_text("imports: [trap]\nmodel: {}\ntext: {shared: char}\n", encoding="utf-8")
    read = "from qkv.config import load_config\nfrom qkv.models.saved.folder import SavedConfig\n"
    read += "print(load_config(SavedConfig, 'config.yaml').imports)\n"
    refused = python(read, tmp_path)
    assert "if you trust it, set QKV_IMPORTS=trap" in refused.stderr
    assert not (tmp_path / "sprung").exists()
    allowed = python(read, tmp_path, QKV_IMPORTS="trap")
    assert allowed.stdout == "['trap']\n", allowed.stderr
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("verb", ["evaluate", "average --last 1 --out average"])
def test_nor_does_the_folder_of_a_run(verb: str, tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\n", encoding="utf-8")
    recipe = plain(tmp_path, tmp_path / "run") | {"imports": ["trap"]}
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "config.yaml").write_text(write_yaml(recipe), encoding="utf-8")
    name, *options = verb.split()
    refused = python(
        f"import sys\nsys.argv = ['qkv', {name!r}, 'run', *{options}]\nfrom qkv.cli import main\nmain()", tmp_path
    )
    assert "if you trust it, set QKV_IMPORTS=trap" in refused.stderr
    assert refused.returncode == 2
    assert not (tmp_path / "sprung").exists()


def test_an_imported_module_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUSTED, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "config.yaml"
    path.write_text("imports: [os]\nmodel: {}\ntext: {shared: char}\n", encoding="utf-8")
    assert load_config(SavedConfig, path).imports == ["os"]


def install(folder: Path, module: str, content: str) -> None:
    """What pip leaves behind of a package: its module and its entry point."""
    (folder / f"{module}.py").write_text(content, encoding="utf-8")
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[qkv.kinds]\nmine = {module}\n", encoding="utf-8")


BUILD = "from qkv.config import validate\nfrom qkv.models.transformer.config import TransformerConfig\n"
BUILD += "print(validate(TransformerConfig, {'residual': 'installed'}, 'config').residual)\n"


def test_an_installed_package_announces_its_kinds(tmp_path: Path) -> None:
    install(tmp_path, "kinds_of_a_package", KINDS.format(name="Installed", kind="installed"))
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    found = python(BUILD, tmp_path, PYTHONPATH=path)
    assert "installed" in found.stdout, found.stderr


IN_PYTHON = """
from qkv.evaluation.metrics.registry import METRICS
from qkv.layers.residual import residuals
from qkv.models.transformer.config import TransformerConfig
for build in (TransformerConfig, lambda residual: TransformerConfig.model_validate({"residual": residual})):
    print(build(residual="installed").residual)
print(residuals["installed"].__name__, "of_a_package" in METRICS, "of_no_package" in METRICS)
TransformerConfig(residual="nowhere")
"""

METRIC = """
from qkv.evaluation.metrics.registry import METRICS
METRICS.register("of_a_package", object())
"""


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_config_built_in_python_finds_them_too(tmp_path: Path, first: int) -> None:
    """Whatever asks for a kind first: a config, a registry of configs, or one of names."""
    install(tmp_path, "kinds_of_a_package", KINDS.format(name="Installed", kind="installed") + METRIC)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    head, lines = IN_PYTHON.split("\n")[1:4], IN_PYTHON.split("\n")[4:]
    begin = ["", 'residuals["installed"]', 'assert "of_a_package" in METRICS'][first]
    found = python("\n".join([*head, begin, *lines]), tmp_path, PYTHONPATH=path)
    assert found.stdout == "kind='installed'\nkind='installed'\nInstalledConfig True False\n", found.stderr
    assert 'residual: unknown kind "nowhere"' in found.stderr.splitlines()[-1]


def test_a_broken_package_is_a_warning(tmp_path: Path) -> None:
    install(tmp_path, "broken_package", "import no_such_module_anywhere\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    found = python(BUILD.replace("installed", "pre"), tmp_path, PYTHONPATH=path)
    assert "kind='pre'" in found.stdout
    assert "broken_package announces kinds for qkv" in found.stderr


def test_registered_kinds_need_no_import() -> None:
    assert "full" in attentions.names()
    assert validate(TransformerConfig, {"residual": "pre"}, "config").residual is not None
