"""The listing of the package is the data flow: a module imports only from its own row and from rows above it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import qkv

PACKAGE = Path(qkv.__file__).parent
ROWS = [
    {"core"},
    {"config"},
    {"functional"},
    {"text"},
    {"kernels"},
    {"data"},
    {"layers"},
    # A model says by `inference()` what it can do without gradients.
    {"models", "inference"},
    {"objectives"},
    {"search"},
    {"export"},
    {"engines"},
    {"translate"},
    {"evaluation"},
    {"training"},
    {"recipes"},
    {"visual"},
    {"serving"},
    {"client"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, row in enumerate(ROWS) for name in row}
# `qkv/__init__.py` alone may name everything: it imports a public name when that is used.
MODULES = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"})


def imported(source: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import of qkv: at the top, inside functions and for type checkers alike."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"qkv.{node.module or ''}" if node.level else node.module or ""]
            if names == ["qkv"]:
                names = [f"qkv.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "qkv")


def offences(source: str, row: str) -> list[str]:
    """What a module in `row` imports from below, or by the lazy names of `qkv` itself."""
    found = []
    for line, name in imported(source):
        parts = name.split(".")
        if len(parts) < 2 or RANK.get(parts[1], len(ROWS)) > RANK[row]:
            found.append(f"line {line} imports {name}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_from_rows_above(path: Path) -> None:
    row = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert row in RANK, f"{row} has no row yet: say in ROWS where it stands"
    assert offences(path.read_text(encoding="utf-8"), row) == []


@pytest.mark.parametrize(
    ("source", "row", "wrong"),
    [
        ("from qkv.core.errors import QkvError", "config", False),
        ("from qkv.core.files import sync", "core", False),
        ("from qkv.models.heads.linear import LinearHead", "layers", True),
        ("def f():\n    import qkv.training.loop", "models", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from qkv.cli import app", "training", True),
        ("from qkv import load_model", "training", True),
        ("import qkv", "cli", True),
    ],
)
def test_the_check_sees_every_form_of_import(source: str, row: str, wrong: bool) -> None:
    assert bool(offences(source, row)) is wrong


@pytest.mark.parametrize("path", sorted((PACKAGE / "functional").glob("*.py")), ids=lambda path: path.name)
def test_equations_know_no_configuration_and_no_modules(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert {name.split(".")[1] for _, name in imported(source)} <= {"functional", "core"}
    assert "nn.Module" not in source


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("qkv", "torch numpy pydantic typer"),
        ("qkv.cli", "torch numpy pydantic sentencepiece tokenizers pyarrow sacrebleu"),
        ("qkv.text", "torch"),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(module: str, heavy: str) -> None:
    program = f"import sys, {module}; print(*sorted(set({heavy.split()}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
