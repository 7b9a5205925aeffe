"""A tab of a browser that remembers everything that a page must not do."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

VIEWS = ("heads", "model", "matrix", "equation", "decoding", "architecture", "positions")


class Watched:
    """A tab; `wrong` lists requests, dialogs, messages on the console and errors."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.wrong: list[str] = []
        self._own = ""
        page.on("request", lambda request: self._seen("request", request.url))
        page.on("dialog", self._dismiss)
        page.on("console", lambda message: self._seen("console", message.text))
        page.on("pageerror", lambda error: self._seen("error", str(error)))

    def _seen(self, what: str, detail: str) -> None:
        if not (what == "request" and detail.split("#")[0] in (self._own, "about:blank", "about:srcdoc")):
            self.wrong.append(f"{what}: {detail}")

    def _dismiss(self, dialog: "Dialog") -> None:
        self._seen("dialog", dialog.message)
        dialog.dismiss()

    def open(self, file: Path, address: str = "") -> None:
        """Load a file from disk, at a hash."""
        self._own = file.as_uri()
        self.page.goto("about:blank")
        self.page.goto(f"{self._own}#{address}")
        self.page.wait_for_selector("[role=tabpanel]")

    def show(self, address: str) -> None:
        """Change the hash of the open page."""
        self.page.evaluate("hash => { location.hash = hash }", address)
        wanted = address.split("view=")[1].split("&")[0]
        self.page.wait_for_selector(f"#tab-{wanted}[aria-selected=true]")

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]
