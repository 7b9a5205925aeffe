"""Chromium for tests of the page; without it they are skipped, with what to install."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import live
from tests.support.browser import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    found = os.environ.get("QKV_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium; install one (apt-get install chromium), or name it by QKV_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=found, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def watched(browser: "Browser") -> Iterator[Watched]:
    """A tab at 1,440 pixels."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    yield Watched(context.new_page())
    context.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    script = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        pytest.skip("no axe-core; run: make web")
    return script.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def server(browser: "Browser") -> Iterator[live.LiveServer]:
    """`qkv serve es-en`, once for all tests of its page."""
    with live.live_server("es-en") as started:
        started.wait()
        yield started
