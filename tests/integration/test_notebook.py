"""The notebook runs from top to bottom, and what its cells end with shows itself."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "look_inside.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """The value of the last line, as a notebook has it; None if that is no expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            shown.append(run_cell("".join(cell["source"]).replace('"300u"', '"6u"'), names))
    assert shown[0] is None
    assert "<table>" in shown[1]._repr_html_()
    assert shown[2]._repr_html_().count("<img") >= 4
    assert shown[3]._repr_html_().startswith("<iframe sandbox")
    assert shown[4]
