"""What holds for every file of the repository."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ["qkv", "tests", "docs", "examples", "benchmarks", ".ci"]
KINDS = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".sh", ".cfg", ""}
LONGEST = 400
MOST_MODULES = 16

# Where a machine keeps its files, and where a site keeps its packages, are nobody else's business.
PRIVATE = [
    re.compile(r"(?<![\w.~*-])/(?:home|Users|work|root|mnt|scratch)/\w+"),
    re.compile(
        r"\b[\w.-]*(?:pypi|pythonhosted|artifactory|nexus|devpi|registry|mirror)[\w.-]*\.(?:com|org|io|net|dev)\b"
    ),
    re.compile(r"https?://(?:\d+\.){3}\d+"),
    re.compile(r"://[^/\s@'\"]+@"),
]


def texts() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    paths = [path for path in [*ROOT.iterdir(), *inside] if path.is_file() and path.suffix in KINDS]
    return sorted(path for path in paths if "__pycache__" not in path.parts)


def private_parts(text: str) -> list[str]:
    return [match[0] for pattern in PRIVATE for match in pattern.finditer(text)]


def test_no_text_names_a_machine_or_a_package_host() -> None:
    found = {path.relative_to(ROOT).as_posix(): private_parts(path.read_text(encoding="utf-8")) for path in texts()}
    assert len(found) > 50
    assert {name: parts for name, parts in found.items() if parts} == {}


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "home/me/x",
        "pip -i https://py" + "pi.example.org/simple",
        "http:/" + "/10.0.0.1/",
        "git:/" + "/me@host/",
    ],
)
def test_the_check_sees_private_parts(text: str) -> None:
    assert private_parts(text)


@pytest.mark.parametrize("path", sorted((ROOT / "qkv").rglob("*.py")), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_file_of_the_package_holds_one_idea(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST
    assert lines == [] or lines[0].startswith('"""'), "a module begins with its docstring"
    assert not path.name.startswith("test_"), "pytest would take it for tests"


def test_the_unit_tests_mirror_the_package() -> None:
    """A folder of tests/unit has the name of the package folder that it tests; no test stands beside them."""
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit).as_posix() for path in unit.rglob("test_*.py")}
    assert len(folders) > 10
    assert [folder for folder in sorted(folders) if folder == "." or not (ROOT / "qkv" / folder).is_dir()] == []


def test_tests_import_only_what_supports_them() -> None:
    """A test module that others import is read by nobody as a test; what is shared stands in tests/support."""
    modules = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    pattern = re.compile(r"^\s*(?:from|import) tests\.(?!support\b)", re.MULTILINE)
    assert sorted(path.name for path, text in modules.items() if pattern.search(text)) == []


PUBLIC = ("_exit", "_replace", "_repr_html_")
"""Of os, of named tuples and of what notebooks show: public, in spite of their names."""


def private_names(source: str) -> list[str]:
    """Names with one underscore of what is not the test's own."""
    nodes = list(ast.walk(ast.parse(source)))
    used = [(node.value, node.attr) for node in nodes if isinstance(node, ast.Attribute)]
    taken = [name for of, name in used if not (isinstance(of, ast.Name) and of.id in ("self", "cls"))]
    taken += [each.name for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names]
    return [name for name in taken if re.match(r"_(?!_)", name) and name not in PUBLIC]


def test_tests_use_no_private_names() -> None:
    found = {path: private_names(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    assert {path.relative_to(ROOT).as_posix(): names for path, names in found.items() if names} == {}
    assert private_names("from qkv.data import _frames\nself._own = search._token(os._exit)") == ["_token", "_frames"]


def test_an_ignored_error_of_the_type_checker_has_its_reason_beside_it() -> None:
    lines = [line for path in texts() if path.suffix == ".py" for line in path.read_text(encoding="utf-8").splitlines()]
    ignored = [line for line in lines if "# type: " + "ignore" in line]
    assert [line for line in ignored if not re.search(r"ignore\[[\w-]+\]  # \w+", line)] == []


def test_a_folder_of_the_package_can_be_taken_in_at_a_glance() -> None:
    folders = {path.parent for path in (ROOT / "qkv").rglob("*.py")}
    sizes = {folder.relative_to(ROOT).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES} == {}
