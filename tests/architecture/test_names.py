"""One name, one thing: a public class or function is defined once in the package.

A command's function in `cli/` has the name of its verb, a program's is `main`, a kernel has the name of the equation in
`functional/` that it computes faster, and a `standalone` class that of the module which it makes usable by itself.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import qkv

PACKAGE = Path(qkv.__file__).parent


def definitions(modules: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """(path in the package, source) of modules -> public name of a class or function -> the modules that define it."""
    found = defaultdict(list)
    for path, source in modules:
        for node in ast.parse(source).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            is_function = not isinstance(node, ast.ClassDef)
            if node.name.startswith("_") or path.endswith("/standalone.py"):
                continue
            if is_function and (path.startswith("cli/") or node.name == "main"):
                continue
            found[node.name].append(path)
    return found


def repeated(modules: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found = definitions(modules)
    return {
        name: paths
        for name, paths in found.items()
        if len(paths) > 1 and [path.split("/")[0] for path in paths] != ["functional", "kernels"]
    }


def test_a_public_name_is_defined_once() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    modules = [(path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")) for path in paths]
    assert repeated(modules) == {}


def test_a_name_with_two_meanings_is_found() -> None:
    modules = [
        ("cli/train.py", "def train(): ..."),
        ("core/a.py", "class Limits: ...\ndef train(): ...\ndef main(): ..."),
        ("functional/a.py", "def attention(): ..."),
        ("kernels/a.py", "def attention(): ...\ndef main(): ..."),
        ("search/a.py", "class Limits: ...\nclass _Private: ..."),
        ("search/b.py", "class _Private: ..."),
    ]
    assert repeated(modules) == {"Limits": ["core/a.py", "search/a.py"]}
