"""The changelog: the sections of Keep a Changelog, and new places of modules that are there."""

import re
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def moves() -> list[tuple[list[str], list[str]]]:
    """The rows of the table of modules: old and new names in full. `qkv.a.b`, `c` stands for qkv.a.b and qkv.a.c."""
    rows = re.findall(r"^  \| (`qkv\.[^|]*) \| (`qkv\.[^|]*) \|$", CHANGELOG, re.M)
    return [(in_full(old), in_full(new)) for old, new in rows]


def in_full(cell: str) -> list[str]:
    names: list[str] = []
    for name in re.findall(r"`([\w.]+)`", cell):
        names.append(name if name.startswith("qkv.") else f"{names[-1].rpartition('.')[0]}.{name}")
    return names


def exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_sections_are_those_of_keep_a_changelog() -> None:
    for version in CHANGELOG.split("\n## ")[1:]:
        found = re.findall(r"^### (.*)$", version, re.M)
        assert found
        assert found == [section for section in SECTIONS if section in found]


def test_what_has_moved_is_where_the_changelog_says() -> None:
    assert len(moves()) > 15
    assert [module for _, new in moves() for module in new if not exists(module)] == []


def test_an_old_module_has_one_new_place() -> None:
    joined = [(old, new) for old, new in moves() if len(old) != len(new) and len(new) > 1]
    assert joined == []


def test_a_module_that_is_not_there_is_found() -> None:
    assert in_full("`qkv.search.base`, `no_such`") == ["qkv.search.base", "qkv.search.no_such"]
    assert not exists("qkv.search.no_such")
    assert not exists("qkv.no_such.base")
