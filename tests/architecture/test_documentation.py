"""What the README and the documentation show is run: commands, programs, recipes, and the outputs under them.

The fenced blocks of a page are taken from top to bottom, in a folder of the page's own that holds `examples/`
and `benchmarks/`. A comment above a block says what else it is:

    <!-- file: reverse.yaml -->   the block is the content of that file; a Python file is run by what imports it
    <!-- output -->               the block is what the one before it prints; `...` stands for anything

`bash` and `python` blocks are run (those of a page share their names), every `yaml` block must be a recipe or a part
of one. Commands that install or build are not run; it is checked that what they name is there.
"""

import contextlib
import importlib
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.config import validate
from qkv.config.parse import parse_yaml
from qkv.core.errors import UsageError
from qkv.training.recipe import Recipe
from tests.support.warm import WarmCommand

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN_ONLY = {"text", "json"}
ANY_DATA = {"train": {"kind": "tsv", "path": "pairs.tsv"}}
ANY_TEXT = {"shared": "char"}
PLACEHOLDER = re.compile(
    r"\?\?\?|\b(?:TODO|FIXME|TBD|TBA|XX+|LOREM|PLACEHOLDER)\b"
    r"|\b(?:(?:KILO|MEGA|GIGA)?BYTES|(?:MILLI)?SECONDS|MINUTES|HOURS|PERCENT|NUMBERS?|RESULTS?|VALUES?|MEASURED?)\b"
    r"|\b[NX] ?(?:%|[KMG]i?B\b|seconds\b|minutes\b)"
)
"""What stands where a number is still to be measured, or a sentence to be written."""


@dataclass(frozen=True)
class Block:
    language: str
    comment: str
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks, each with the HTML comment right above it."""
    pattern = re.compile(r"(?:^<!-- (?P<comment>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
    for match in pattern.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        yield Block(match["language"], match["comment"] or "", match["text"], line)


@dataclass
class Reader:
    """Does what a page says."""

    folder: Path
    programs: list[Path] = field(default_factory=list)
    """Folders that stand first on the PATH."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    printed: str = ""

    def follow(self, block: Block, where: str) -> None:
        if block.comment.startswith("file: "):
            path = self.folder / block.comment.removeprefix("file: ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.comment == "output":
            self.compare(block.text)
        elif block.language == "bash":
            self.printed = self.bash(block.text)
        elif block.language == "python" and not block.comment.startswith("file: "):
            self.printed = self.python(block.text, where)
        elif block.language == "yaml":
            check_recipe(block.text, where)
        elif block.language != "python":
            assert block.language in SHOWN_ONLY, f"nothing checks a block of {block.language or 'no language'}"

    def bash(self, script: str) -> str:
        lines = [line for line in script.splitlines() if not is_installation(line)]
        programs = os.pathsep.join([*map(str, self.programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=self.folder,
            env={**os.environ, "PATH": programs, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
        assert result.returncode == 0, f"{script}\n{result.stdout}"
        return result.stdout

    def python(self, program: str, where: str) -> str:
        printed = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
            exec(compile(program, where, "exec"), self.names)
        return printed.getvalue()

    def compare(self, expected: str) -> None:
        pattern = re.escape(expected.strip("\n")).replace(r"\.\.\.", ".*?")
        assert re.search(rf"^{pattern}$", self.printed, re.M | re.S), f"expected:\n{expected}\nprinted:\n{self.printed}"


def is_installation(line: str) -> bool:
    """Whether a command installs or builds; then what it names must be there."""
    command = line.split("#")[0].split()
    if command[:1] == ["make"]:
        targets = [word for word in command[1:] if "=" not in word]
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert targets
        assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets), line
    elif command[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        named = [extra for group in re.findall(r"\[([\w,]+)\]", line) for extra in group.split(",")]
        assert set(named) <= set(project["optional-dependencies"]), line
    return command[:1] == ["make"] or command[:2] in (["pip", "install"], ["git", "clone"])


def check_recipe(text: str, where: str) -> None:
    """A whole recipe, or some of its keys; one with kinds of its own is checked by the command that reads it."""
    data = parse_yaml(text).data
    if "imports" in data:
        return
    # Data of another kind than pairs say themselves whether there is text.
    any_text = {} if "kind" in data.get("data", {}) else {"text": ANY_TEXT}
    validate(Recipe, {"data": ANY_DATA, **any_text, **data}, where)


@pytest.fixture(scope="module")
def warm() -> Iterator[Path]:
    command = WarmCommand()
    yield command.folder
    command.close()


@pytest.fixture
def reader(tmp_path: Path, warm: Path) -> Iterator[Reader]:
    for name in ("examples", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    threads = torch.get_num_threads()
    yield Reader(tmp_path, [warm])
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_is_true(page: Path, reader: Reader) -> None:
    if page.name == "README.md":
        reader.programs = []  # one page with the command as it is installed
    for block in blocks(page.read_text(encoding="utf-8")):
        reader.follow(block, f"{page.name}:{block.line}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_fence_is_seen(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert 2 * len(list(blocks(text))) == text.count("```")


@pytest.mark.parametrize(
    "block",
    [
        Block("bash", "", "false\n", 1),
        Block("bash", "", "qkv no-such-verb\n", 1),
        Block("bash", "", "make no-such-target\n", 1),
        Block("bash", "", "pip install 'qkv[no_such_extra]'\n", 1),
        Block("python", "", "1 / 0\n", 1),
        Block("yaml", "", "model: {num_head: 4}\n", 1),
        Block("text", "output", "this was not printed\n", 1),
        Block("cobol", "", "", 1),
    ],
    ids=lambda block: f"{block.language}: {block.text.strip()}",
)
def test_a_page_that_lies_is_caught(block: Block, reader: Reader) -> None:
    with pytest.raises((AssertionError, ZeroDivisionError, UsageError)):
        reader.follow(block, "page")


def test_the_reference_is_up_to_date() -> None:
    command = [sys.executable, "-c", "from qkv.cli import main; main()", "config", "reference"]
    generated = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == generated, "write it again: qkv config reference > docs/configuration.md"


def test_the_menu_holds_every_page_once() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^  +- [^:]+: (\S+\.md)$", menu, re.M)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("start", ["README.md", "docs/index.md"])
def test_every_page_is_linked_from_the_start(start: str) -> None:
    text = (ROOT / start).read_text(encoding="utf-8")
    linked = {(ROOT / start).parent / target for target in re.findall(r"\]\((?!https?://)([^)#\s]+)", text)}
    assert [
        page.name for page in (ROOT / "docs").glob("*.md") if page not in linked | {ROOT / "docs" / "index.md"}
    ] == []


def placeholders(page: str) -> list[str]:
    """Those in the text of a page; in code, a word in capitals is what the reader fills in."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", page, flags=re.M | re.S)
    return PLACEHOLDER.findall(prose)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_nothing_is_left_to_be_filled_in(page: Path) -> None:
    assert placeholders(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a million of them take MEGABYTES while they are read", ["MEGABYTES"]),
        ("| BLEU | TBD | ??? |", ["TBD", "???"]),
        ("took NUMBER pairs and X.XX seconds, or N MiB; XX % of XXX", ["NUMBER", "XX", "N MiB", "XX", "XXX"]),
        ("`--every SECONDS`\n```bash\nqkv average RUN --last NUMBER\n```\nThe BLEU of N pairs, in XML.", []),
    ],
)
def test_the_check_sees_placeholders(text: str, found: list[str]) -> None:
    assert placeholders(text) == found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
        slugs = [re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings]
        assert anchor in slugs, f"{target}#{anchor}"


def test_the_tour_goes_by_files_that_exist() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    named = [
        path for heading in re.findall(r"^## .*$", tour, re.M) for path in re.findall(r"`([\w/]+(?:\.py|/))`", heading)
    ]
    assert len(named) > 20
    assert [path for path in named if not (ROOT / "qkv" / path).exists()] == []


def test_the_page_of_kinds_shows_the_files_of_the_example() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    shown = [block for block in blocks(page) if block.language == "python" and block.comment.startswith("file: ")]
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "examples" / "kinds").rglob("*.py")]
    assert len(shown) > 3
    assert [block.comment for block in shown if not any(block.text in text for text in files)] == []


def test_the_page_of_kinds_lists_every_registry() -> None:
    """By the name of the object, outside of `config/`, which defines registries; metrics are added by a function."""
    paths = [path for path in (ROOT / "qkv").rglob("*.py") if path.parent.name != "config"]
    modules = [path.read_text(encoding="utf-8") for path in paths]
    registries = {name for text in modules for name in re.findall(r"^(\w+) = (?:Kinds|Names)\[", text, re.M)}
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("## What can be added")[2]
    listed = re.findall(r"^\| `(qkv\.[\w.]+)` \|", page, re.M)
    assert {name.rpartition(".")[2] for name in listed} == registries - {"METRICS"} | {"register_metric"}
    for name in listed:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_from_qkv_import_is_enough(name: str) -> None:
    """What these pages use of the package is a public name of `qkv`."""
    programs = [block.text for block in blocks((ROOT / name).read_text(encoding="utf-8")) if block.language == "python"]
    imported = re.findall(r"^\s*(?:from|import) (qkv[\w.]*)", "\n".join(programs), re.M)
    assert imported
    assert set(imported) == {"qkv"}


def test_the_readme_shows_the_folders_of_the_package() -> None:
    tree = (ROOT / "README.md").read_text(encoding="utf-8").partition("```text\nqkv/\n")[2].partition("```")[0]
    shown = re.findall(r"^  (\w+)/ ", tree, re.M)
    assert sorted(shown) == sorted(path.parent.name for path in (ROOT / "qkv").glob("*/__init__.py"))
