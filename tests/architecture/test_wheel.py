"""What is installed by `pip install qkv`: the package with all that it reads at run time."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a wheel that is built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "qkv", folder / "qkv", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    subprocess.run([sys.executable, "-c", BUILD, "dist"], cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_file_of_the_package(inside: set[str]) -> None:
    files = [path for path in (ROOT / "qkv").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    wanted = {path.relative_to(ROOT).as_posix() for path in files}
    assert wanted - inside == set()
    assert "qkv/recipes/reverse.yaml" in inside


def test_the_wheel_holds_nothing_else(inside: set[str]) -> None:
    assert {name.split("/")[0] for name in inside if ".dist-info/" not in name} == {"qkv"}
