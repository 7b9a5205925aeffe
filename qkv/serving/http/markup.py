"""HTML whose texts are translated and whose tags stay where they are."""

from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser

RAW = ("script", "style")
"""Elements whose content is not text: nothing in it is escaped."""
UNTRANSLATED = (*RAW, "code", "pre", "textarea")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
"""Elements without an end."""


class Markup:
    """A text with tags, cut into what is translated and what stays."""

    def __init__(self, text: str) -> None:
        parser = _Cutter()
        parser.feed(text)
        parser.close()
        self._pieces = parser.pieces
        self.texts = [piece.strip() for piece, translated in self._pieces if translated]
        """The texts between tags, without the white space around them."""

    def filled(self, outputs: Sequence[str]) -> str:
        """The same with other texts; their `<`, `>` and `&` are escaped."""
        remaining, found = iter(outputs), []
        for piece, translated in self._pieces:
            if not translated:
                found.append(piece)
                continue
            before = piece[: len(piece) - len(piece.lstrip())]
            after = piece[len(piece.rstrip()) :]
            found.append(before + escape(next(remaining), quote=False) + after)
        return "".join(found)


class _Cutter(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[tuple[str, bool]] = []
        """What the text is made of, and whether it is translated."""
        self._inside: list[str] = []
        """The elements, from one that is not translated on, that are open."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._keep(self.get_starttag_text() or "")
        if tag not in VOID and (self._inside or tag in UNTRANSLATED or ("translate", "no") in attrs):
            self._inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._keep(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self._keep(f"</{tag}>")
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] in RAW:
            self._keep(data)
        elif self._inside or not data.strip():
            self._keep(escape(data, quote=False))
        else:
            self.pieces.append((data, True))

    def handle_comment(self, data: str) -> None:
        self._keep(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._keep(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self._keep(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self._keep(f"<![{data}]>")

    def _keep(self, piece: str) -> None:
        self.pieces.append((piece, False))
