"""Screenshots of the page of `qkv serve` for the documentation, from a real server in a real browser.

pip install 'qkv[serve,docx]' playwright
python benchmarks/page_screenshots.py docs/images --chromium /usr/bin/chromium
"""

import argparse
import io
import os
import shutil
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

import docx
from playwright.sync_api import Browser, Page, sync_playwright
from served import served

TEXT = "Creo que el libro que me diste ayer es muy interesante."
ALL_AT_ONCE = Path(__file__).parents[1] / "tests" / "fixtures" / "ctc" / "model"
"""A model that writes all letters at once, in upper case, and doubles every L."""
WAIT = 120_000


def opened(
    browser: Browser, address: str, scheme: Literal["dark", "light"], size: tuple[int, int], **fields: str
) -> Page:
    """The page with a text that is translated and whose inside is shown."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{address}/#{urlencode(fields)}")
    page.locator(".output:not(.stale) .unit").first.wait_for(timeout=WAIT)
    page.locator("#panel section").first.wait_for(timeout=WAIT)
    return page


def letter() -> bytes:
    """A Word document."""
    document = docx.Document()
    document.add_heading("La casa", 1)
    document.add_paragraph(TEXT)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def take(browser: Browser, address: str, folder: Path) -> None:
    """All screenshots."""

    def save(page: Page, name: str) -> None:
        page.mouse.move(0, 0)
        page.screenshot(path=folder / f"{name}.png", animations="disabled")
        page.context.close()

    save(opened(browser, address, "dark", (1440, 900), text=TEXT, model="es-en", view="heads"), "page_wide_dark")

    chinese = opened(browser, address, "light", (1200, 860), text=TEXT, model="es-en", view="equation")
    chinese.get_by_role("button", name="中文").click()
    chinese.get_by_role("button", name="English").wait_for()
    save(chinese, "page_chinese")

    files = opened(browser, address, "light", (1200, 760), text=TEXT, model="es-en")
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    files.locator("input[type=file]").set_input_files({"name": "carta.docx", "mimeType": word, "buffer": letter()})
    files.get_by_role("link", name="Save the translation").wait_for(timeout=WAIT)
    save(files, "page_docx")

    save(opened(browser, address, "light", (1200, 860), text="kalo lota sulami", model="model"), "page_all_at_once")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    with served("es-en", f"{ALL_AT_ONCE}=aa-bb", "workers=1") as server, sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=options.chromium, args=arguments)
        take(started, server, options.folder)
        started.close()
