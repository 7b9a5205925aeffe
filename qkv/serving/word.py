"""Word documents (.docx): their texts are translated; paragraphs, tables, pictures, links and formats stay."""

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from html import unescape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from qkv.core.errors import UsageError
from qkv.serving.html.tags import Tagged, place_tags
from qkv.translate.output import Translation

if TYPE_CHECKING:
    from docx.document import Document

INSTALL = "Word documents need python-docx on the server; install it with: pip install 'qkv[docx]'"
BAD = "the file is not a Word document (.docx) that can be read"
MOST_UNPACKED = 8 << 20
"""Bytes of all files in a document."""
MOST_FILES = 1000
MARK = re.compile(r"<(/?)r(\d+)>")
"""Begin and end of a format in an output."""
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot hold."""


def can_read_word() -> bool:
    """Whether python-docx is installed."""
    return find_spec("docx") is not None


def word_document(content: bytes, whole: bool) -> tuple[list[str], Callable[[Sequence[Translation]], bytes]]:
    """The texts of a document, and how it is written with others in their place; raises UsageError.

    With `whole`, the alignment says which words get the format of which.
    """
    document = _opened(content)
    stretches = [Stretch(runs) for part in _parts(document) for runs in _stretches(part)]
    stretches = [each for each in stretches if each.text.strip()]

    def filled(outputs: Sequence[Translation]) -> bytes:
        for stretch, output in zip(stretches, outputs, strict=True):
            stretch.write(output, whole)
        written = io.BytesIO()
        document.save(written)
        return written.getvalue()

    return [each.text.strip() for each in stretches], filled


def _opened(content: bytes) -> "Document":
    if not can_read_word():
        raise UsageError(INSTALL)
    import docx

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sizes = [entry.file_size for entry in archive.infolist()]
        # An archive that says less than it holds fails when it is read.
        if len(sizes) > MOST_FILES or sum(sizes) > MOST_UNPACKED:
            raise UsageError(f"the document is larger than {MOST_UNPACKED >> 20} MiB when it is unpacked")
        return docx.Document(io.BytesIO(content))
    except UsageError:
        raise
    except Exception as error:  # whatever a broken archive or broken XML makes the libraries raise
        raise UsageError(BAD) from error


def _parts(document: "Document") -> Iterator[Any]:
    """The XML of the body, and of headers and footers."""
    yield document.element.body
    for part in document.part.package.iter_parts():
        if part.partname.startswith(("/word/header", "/word/footer")):
            yield part.element


def _stretches(part: Any) -> Iterator[list[Any]]:
    """Runs of text that follow each other; a break, a tab, a picture, a field or a link ends them."""
    from docx.oxml.ns import qn

    text, properties = qn("w:t"), (qn("w:rPr"), qn("w:lastRenderedPageBreak"))
    unseen = (qn("w:proofErr"), qn("w:bookmarkStart"), qn("w:bookmarkEnd"))
    for run in list(part.iter(qn("w:r"))):
        _split(run, properties)
    for parent in list(dict.fromkeys(run.getparent() for run in part.iter(qn("w:r")))):
        found: list[Any] = []
        for child in parent:
            said = [each for each in child if each.tag not in properties] if child.tag == qn("w:r") else []
            if said and all(each.tag == text for each in said):
                found.append(child)
            elif child.tag not in unseen and found:
                yield found
                found = []
        if found:
            yield found


def _split(run: Any, properties: Sequence[str]) -> None:
    """Make several runs of one that holds several things."""
    own = [each for each in run if each.tag in properties]
    for extra in reversed([each for each in run if each.tag not in properties][1:]):
        other = run.makeelement(run.tag, dict(run.attrib), run.nsmap)
        other.extend([*map(deepcopy, own), extra])
        run.addnext(other)


class Stretch:
    """Runs that are read as one text."""

    def __init__(self, runs: list[Any]) -> None:
        self.runs = runs
        texts = ["".join(each.text or "" for each in run if each.tag.endswith("}t")) for run in runs]
        self.text = "".join(texts)
        ends = [sum(map(len, texts[: place + 1])) for place in range(len(texts))]
        self.spans = [(end - len(text), end) for end, text in zip(ends, texts, strict=True)]
        self.main = max(range(len(runs)), key=lambda place: len(texts[place]))
        """The run whose format words have that are aligned with none."""
        self.formats = list(map(_format, runs))

    def write(self, output: Translation, whole: bool) -> None:
        """Put runs with the output in the place of these."""
        before = self.text[: len(self.text) - len(self.text.lstrip())]
        after = self.text[len(self.text.rstrip()) :]
        pieces = self._pieces(output) if whole and len(self.runs) > 1 else [(self.main, output.text)]
        made = [self._run(place, text) for place, text in [(self.main, before), *pieces, (self.main, after)] if text]
        first = self.runs[0]
        for run in made:
            first.addprevious(run)
        for run in self.runs:
            run.getparent().remove(run)

    def _pieces(self, output: Translation) -> list[tuple[int, str]]:
        """The output in pieces, each with the run whose format it gets."""
        elements = [
            (start, end, f"<r{place}>", f"</r{place}>")
            for place, (start, end) in enumerate(self.spans)
            if self.formats[place] != self.formats[self.main] and self.text[start:end].strip()
        ]
        found, now, done = [], self.main, 0
        placed = place_tags(Tagged(self.text, elements), output)
        for mark in MARK.finditer(placed):
            found.append((now, unescape(placed[done : mark.start()])))
            now, done = self.main if mark[1] else int(mark[2]), mark.end()
        return [*found, (now, unescape(placed[done:]))]

    def _run(self, place: int, text: str) -> Any:
        """A new run with the format of one of these."""
        from docx.oxml.ns import qn

        run = deepcopy(self.runs[place])
        for each in [each for each in run if each.tag != qn("w:rPr")]:
            run.remove(each)
        run.text = FORBIDDEN.sub("", text)
        return run


def _format(run: Any) -> str:
    """Two runs look the same if this is the same; editors cut texts into more runs than they have formats."""
    return "".join(properties.xml for properties in run.xpath("w:rPr"))
