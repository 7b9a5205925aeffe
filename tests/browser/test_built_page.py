"""The page in the package is what its sources build, and the units of the front end are right."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
PAGE = ROOT / "qkv" / "visual" / "page" / "see.html"


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


def test_the_committed_page_is_built_from_its_sources(tmp_path: Path) -> None:
    npm("build", QKV_PAGE_FOLDER=str(tmp_path))
    assert (tmp_path / "see.html").read_bytes() == PAGE.read_bytes(), "run: make web"


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
