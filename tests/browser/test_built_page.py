"""The page in the package is what its sources build, and the units of the front end are right."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qkv import Translator

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
PAGE = ROOT / "qkv" / "visual" / "page" / "see.html"
LIVE = ROOT / "qkv" / "serving" / "page"
BUILT = ("index.html", "icon.svg", "live.css", "live.js")


def npm(*arguments: str, **environment: str) -> str:
    """Run a script of package.json; skips where npm or its packages are not there."""
    found = shutil.which("npm")
    if found is None:
        pytest.skip("no npm; users of the package need none, but a change of web/ does")
    if not (WEB / "node_modules").is_dir():
        pytest.skip("the packages of web/ are not installed; run: make web")
    ended = subprocess.run(
        [found, "run", *arguments], cwd=WEB, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_committed_pages_are_built_from_their_sources(tmp_path: Path) -> None:
    npm("build", QKV_PAGE_FOLDER=str(tmp_path))
    assert (tmp_path / "see.html").read_bytes() == PAGE.read_bytes(), "run: make web"
    for name in BUILT:
        assert (tmp_path / name).read_bytes() == (LIVE / name).read_bytes(), "run: make web"


def test_the_types_of_the_page_are_those_of_the_server(tmp_path: Path) -> None:
    described = subprocess.run([sys.executable, WEB / "openapi.py"], capture_output=True, text=True, check=True)
    (tmp_path / "openapi.json").write_text(described.stdout)
    npm("schema", "--", str(tmp_path / "openapi.json"), "-o", str(tmp_path / "schema.ts"))
    assert (tmp_path / "schema.ts").read_text() == (WEB / "src/live/schema.ts").read_text(), "run: make web"


def test_the_example_of_the_page_is_what_the_model_says() -> None:
    kept = json.loads((LIVE / "example.json").read_text())
    found = Translator(kept["model"], engine="torch").translate(kept["text"], nbest=3, alignment=True).as_dict()
    assert [kept["answer"]["text"], *(one["text"] for one in kept["answer"]["alternatives"])] == [
        found["text"],
        *(one["text"] for one in found["alternatives"]),
    ]
    assert kept["answer"]["tokens"] == found["tokens"]
    assert kept["record"]["output"] == found["text"]


def test_units_of_the_front_end() -> None:
    assert "passed" in npm("test")


def test_the_page_names_no_other_host() -> None:
    page = PAGE.read_text(encoding="utf-8")
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for tag in ("<link", "<img", "<iframe", "src=", "@import", "url(http"):
        assert tag not in page.split("<style>")[1].split("</style>")[0]
    assert page.count("<script") == 2
