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
        self._own = self._server = ""
        page.on("request", lambda request: self._seen("request", request.url))
        page.on("dialog", self._dismiss)
        page.on("console", lambda message: self._seen("console", message.text))
        page.on("pageerror", lambda error: self._seen("error", str(error)))

    def _seen(self, what: str, detail: str) -> None:
        own = detail.split("#")[0] in (self._own, "about:blank", "about:srcdoc")
        if not (what == "request" and (own or (self._server and detail.startswith(f"{self._server}/")))):
            self.wrong.append(f"{what}: {detail}")

    def _dismiss(self, dialog: "Dialog") -> None:
        self._seen("dialog", dialog.message)
        dialog.dismiss()

    def open(self, file: Path, address: str = "", until: str = "[role=tabpanel]") -> None:
        """Load a file from disk, at a hash; wait for what `until` selects."""
        self._own = file.as_uri()
        self.page.goto("about:blank")
        self.page.goto(f"{self._own}#{address}")
        self.page.wait_for_selector(until)

    def visit(self, server: str, address: str = "") -> None:
        """Load the page of a server, at a hash; its own requests go to that server only."""
        self._server = server
        self.page.goto("about:blank")
        self.page.goto(f"{server}/#{address}")
        self.page.wait_for_selector("#source")

    def show(self, address: str) -> None:
        """Change the hash of the open page."""
        self.page.evaluate("hash => { location.hash = hash }", address)
        wanted = address.split("view=")[1].split("&")[0]
        self.page.wait_for_selector(f"#tab-{wanted}[aria-selected=true]")

    def expect_text(self, selector: str, text: str) -> None:
        """Wait until an element has this text."""
        from playwright.sync_api import expect

        expect(self.page.locator(selector)).to_have_text(text, timeout=30_000)

    def violations(self, axe: str) -> list[tuple[str, str]]:
        """What axe finds serious or critical on the page as it is: the rule, and the first element."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(axe)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        bad = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        return [(each["id"], each["nodes"][0]["html"]) for each in bad]

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]
