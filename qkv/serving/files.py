"""Files that are translated: what of them is text, and where the results wait to be fetched."""

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from qkv.serving.html.markup import Markup
from qkv.serving.word import can_read_word, word_document
from qkv.translate.output import Translation

TIMES = re.compile(r"\d+:\d\d:\d\d[,.]\d+ --> .*")
"""The line of a subtitle above its text."""


class Pieces(NamedTuple):
    """The texts of a file, and how it is written with others in their place."""

    texts: list[str]
    filled: Callable[[Sequence[Translation]], bytes]


def text_lines(content: bytes, whole: bool) -> Pieces:
    """Every line that is not blank."""
    return _lines(content, lambda lines: [bool(line.strip()) for line in lines])


def subtitles(content: bytes, whole: bool) -> Pieces:
    """SubRip: the lines below those with times."""

    def spoken(lines: Sequence[str]) -> list[bool]:
        found, inside = [], False
        for line in lines:
            text = line.strip()
            found.append(inside and bool(text))
            inside = bool(text) and (inside or bool(TIMES.fullmatch(text)))
        return found

    return _lines(content, spoken)


def markup(content: bytes, whole: bool) -> Pieces:
    """HTML: what stands between tags; with `whole`, between the tags of blocks."""
    page = Markup(content.decode("utf-8-sig"), whole)
    return Pieces(page.texts, lambda outputs: page.filled(outputs).encode())


def word(content: bytes, whole: bool) -> Pieces:
    """A Word document: its paragraphs."""
    return Pieces(*word_document(content, whole))


FORMATS: dict[str, Callable[[bytes, bool], Pieces]] = {
    ".txt": text_lines,
    ".srt": subtitles,
    ".html": markup,
    ".docx": word,
}


def readable_formats() -> list[str]:
    """The formats for which everything is installed."""
    return [suffix for suffix in FORMATS if suffix != ".docx" or can_read_word()]


def _lines(content: bytes, chosen: Callable[[Sequence[str]], list[bool]]) -> Pieces:
    lines = content.decode("utf-8-sig").split("\n")
    texts = chosen(lines)

    def filled(outputs: Sequence[Translation]) -> bytes:
        remaining = iter([each.text for each in outputs])
        # An output is one line, whatever it holds, and ends as the line did.
        new = [
            " ".join(next(remaining).split()) + ("\r" if line.endswith("\r") else "") if is_text else line
            for line, is_text in zip(lines, texts, strict=True)
        ]
        return "\n".join(new).encode()

    return Pieces([line.strip() for line, is_text in zip(lines, texts, strict=True) if is_text], filled)


class StoredFile(NamedTuple):
    """A translated file."""

    name: str
    content: bytes
    expires: float


class FileShelf:
    """Translated files in memory, each under a name that cannot be guessed, for a while."""

    def __init__(self, seconds: float = 600, most: int = 64) -> None:
        self.seconds, self.most = seconds, most
        self._files: OrderedDict[str, StoredFile] = OrderedDict()

    def put(self, name: str, content: bytes) -> str:
        """Keep a file; returns the token to fetch it by. The oldest ones make room."""
        token = secrets.token_urlsafe(24)
        self._files[token] = StoredFile(name, content, time.monotonic() + self.seconds)
        while len(self._files) > self.most:
            self._files.popitem(last=False)
        return token

    def get(self, token: str) -> StoredFile | None:
        """The file of a token; None: there is none, or it has expired."""
        found = self._files.get(token)
        if found is None or found.expires < time.monotonic():
            self._files.pop(token, None)
            return None
        return found
