"""HTML whose texts are translated and whose tags stay: what stands between two blocks is translated as a whole, and the
tags inside it are put back by the alignment of the words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from html.parser import HTMLParser
from itertools import pairwise

from qkv.serving.html.tags import Tagged, place_tags
from qkv.translate.output import Translation

RAW = ("script", "style")
"""Elements whose content is not text."""
UNTRANSLATED = (*RAW, "code", "pre", "textarea")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
"""Elements without an end."""
INLINE = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q", "s",
    "samp", "small", "span", "strong", "sub", "sup", "tt", "u", "var",
})  # fmt: skip
"""Elements inside a sentence."""


@dataclass
class PagePiece:
    """A stretch of a page, exactly as it was written."""

    raw: str
    text: str | None = None
    """What it says, if it is to be translated."""
    opens: str | None = None
    """The name of the inline element that begins here."""
    closes: str | None = None
    """The name of the inline element that ends here."""

    @property
    def said(self) -> str:
        """Its words, without the white space around them."""
        return (self.text or "").strip()


@dataclass
class PageBlock:
    """Texts and inline tags that follow each other."""

    pieces: list[PagePiece] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The texts between two tags, without the white space around them."""
        return [piece.said for piece in self.pieces if piece.said]

    def tagged(self) -> Tagged | None:
        """The whole as one text with tags in it; None: it has no tags, or they do not match."""
        if not any(piece.opens or piece.closes for piece in self.pieces):
            return None
        text, elements, open_at = "", [], list[tuple[PagePiece, int]]()
        for piece in self.pieces:
            if piece.text is not None:
                text += piece.text
            elif piece.opens is not None:
                open_at.append((piece, len(text)))
            elif open_at and open_at[-1][0].opens == piece.closes:
                first, start = open_at.pop()
                elements.append((start, len(text), first.raw, piece.raw))
            else:
                return None
        return None if open_at else Tagged(text, elements)


class Markup:
    """A page, cut into what is translated and what stays.

    Nothing of what stays is written anew: it is copied from the page.
    """

    def __init__(self, text: str, whole: bool = False) -> None:
        parser = _Cutter(text)
        self._parts = _blocks(parser.pieces)
        self._tagged = [part.tagged() if whole and isinstance(part, PageBlock) else None for part in self._parts]
        self.texts: list[str] = []
        """What is to be translated, without the white space around it: with `whole`, blocks with the tags taken out."""
        for part, tagged in zip(self._parts, self._tagged, strict=True):
            if isinstance(part, PageBlock):
                self.texts += part.texts if tagged is None else [tagged.text.strip()]

    def filled(self, outputs: Sequence[Translation]) -> str:
        """The same with other texts; their `<`, `>` and `&` are escaped."""
        remaining, found = iter(outputs), []
        for part, tagged in zip(self._parts, self._tagged, strict=True):
            if isinstance(part, PagePiece):
                found.append(part.raw)
            elif tagged is not None:
                found.append(_spaced(tagged.text, place_tags(tagged, next(remaining))))
            else:
                for piece in part.pieces:
                    output = escape(next(remaining).text, quote=False) if piece.said else None
                    found.append(piece.raw if output is None else _spaced(piece.text or "", output))
        return "".join(found)


def _spaced(text: str, output: str) -> str:
    """`output` between the white space around `text`."""
    before, after = len(text) - len(text.lstrip()), len(text.rstrip())
    return text[:before] + output + text[after:]


def _blocks(pieces: Sequence[PagePiece]) -> list[PagePiece | PageBlock]:
    """Runs of texts and inline tags with a text in them, and the rest as it is."""
    found: list[PagePiece | PageBlock] = []
    run: list[PagePiece] = []
    for piece in [*pieces, PagePiece("")]:
        if piece.text is not None or piece.opens or piece.closes:
            run.append(piece)
            continue
        found += _trimmed(run)
        found.append(piece)
        run = []
    return found[:-1]


def _trimmed(run: list[PagePiece]) -> list[PagePiece | PageBlock]:
    """A run without the tags and the white space around all of it."""
    said = [place for place, piece in enumerate(run) if piece.said]
    if not said:
        return list(run)
    first, last = said[0], said[-1]
    # Tags that begin before the first word and end behind the last one can stay outside.
    inner, depth = run[first : last + 1], 0
    for piece in inner:
        depth += bool(piece.opens) - bool(piece.closes)
        if depth < 0:
            break
    balanced = depth == 0
    if balanced:
        return [*run[:first], PageBlock(inner), *run[last + 1 :]]
    return [PageBlock(run)]


class _Cutter(HTMLParser):
    """Notes where each construct begins; a construct goes as far as the next one begins."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self._lines = [0]
        for line in text.split("\n")[:-1]:
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._begun: list[tuple[int, PagePiece]] = []
        self._inside: list[str] = []
        """The elements, from one that is not translated on, that are open."""
        self.feed(text)
        self.close()
        # What comes before the first construct is none; there is a last one that is empty.
        begun = [(0, PagePiece("")), *self._begun, (len(text), PagePiece(""))]
        self.pieces: list[PagePiece] = []
        for (start, piece), (end, _) in pairwise(begun):
            self.pieces += _complete(piece, text[start:end])

    def _begin(self, piece: PagePiece) -> None:
        line, column = self.getpos()
        self._begun.append((self._lines[line - 1] + column, piece))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kept = bool(self._inside) or tag in UNTRANSLATED or ("translate", "no") in attrs
        self._begin(PagePiece("", opens=tag if tag in INLINE and not kept else None))
        if tag not in VOID and kept:
            self._inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begin(PagePiece(""))

    def handle_endtag(self, tag: str) -> None:
        self._begin(PagePiece("", closes=tag if tag in INLINE and not self._inside else None))
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        self._begin(PagePiece("", text=None if self._inside else data))

    def handle_comment(self, data: str) -> None:
        self._begin(PagePiece(""))

    def handle_decl(self, decl: str) -> None:
        self._begin(PagePiece(""))

    def handle_pi(self, data: str) -> None:
        self._begin(PagePiece(""))

    def unknown_decl(self, data: str) -> None:
        self._begin(PagePiece(""))

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Sections that Python's parser refuses, such as `<![;>`, are comments, as they are in browsers."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i, report)


def _complete(piece: PagePiece, raw: str) -> list[PagePiece]:
    """`piece` with what it was written as; what the parser has not read of it stays as it is."""
    piece.raw = raw
    if piece.text is None or unescape(raw) == piece.text:
        return [piece] if raw else []
    if raw.startswith(piece.text):
        return [PagePiece(piece.text, text=piece.text), PagePiece(raw[len(piece.text) :])]
    return [PagePiece(raw)]
