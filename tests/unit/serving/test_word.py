"""Word documents: what they say is replaced, how they look stays, and archives that lie or burst are refused."""

import io
import re
import zipfile
from typing import TYPE_CHECKING

import pytest
from docx import Document
from docx.shared import Pt
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.core.errors import UsageError
from qkv.serving import word
from qkv.serving.files import FORMATS, readable_formats
from qkv.serving.word import BAD, MOST_UNPACKED, word_document
from qkv.translate.output import Translation

if TYPE_CHECKING:
    from docx.document import Document as WordDocument


def saved(document: "WordDocument") -> bytes:
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def output(text: str, alignment: list[list[float]] | None = None, src: str = "") -> Translation:
    tokens, src_tokens = (re.findall(r"\w+|[^\w\s]", side) for side in (text, src))
    return Translation(text, 0.0, tokens, [], [*src_tokens, "</s>"], alignment=alignment)


def shouted(content: bytes) -> tuple[list[str], "WordDocument"]:
    """The texts of a document, and the document with each of them in capitals."""
    texts, filled = word_document(content, False)
    return texts, Document(io.BytesIO(filled([output(text.upper()) for text in texts])))


@pytest.fixture
def letter() -> bytes:
    document = Document()
    document.add_heading("El título", 1)
    paragraph = document.add_paragraph("Me gusta ", style="List Bullet")
    paragraph.add_run("leer").bold = True
    paragraph.add_run(" libros.")
    document.add_paragraph("   ")
    lines = document.add_paragraph()
    lines.add_run("uno\tdos\ntres").font.size = Pt(20)
    table = document.add_table(1, 2)
    table.cell(0, 0).text = "cuatro"
    table.cell(0, 1).paragraphs[0].add_run("cinco").italic = True
    document.sections[0].header.paragraphs[0].text = "seis"
    return saved(document)


def test_texts_are_replaced_and_everything_else_stays(letter: bytes) -> None:
    texts, made = shouted(letter)
    assert texts == ["El título", "Me gusta leer libros.", "uno", "dos", "tres", "cuatro", "cinco", "seis"]
    assert [paragraph.text for paragraph in made.paragraphs] == [
        "EL TÍTULO",
        "ME GUSTA LEER LIBROS.",
        "   ",
        "UNO\tDOS\nTRES",
    ]
    assert [paragraph.style and paragraph.style.name for paragraph in made.paragraphs] == [
        "Heading 1",
        "List Bullet",
        "Normal",
        "Normal",
    ]
    assert {run.font.size for run in made.paragraphs[3].runs if run.text.strip()} == {Pt(20)}
    assert made.tables[0].cell(0, 0).text == "CUATRO"
    assert made.tables[0].cell(0, 1).paragraphs[0].runs[0].italic
    assert made.sections[0].header.paragraphs[0].text == "SEIS"


def test_words_have_the_format_of_those_that_they_are_aligned_with() -> None:
    document = Document()
    paragraph = document.add_paragraph("la casa ")
    paragraph.add_run("blanca").bold = True
    paragraph.add_run(" &")
    paragraph.add_run(" más")
    texts, filled = word_document(saved(document), True)
    assert texts == ["la casa blanca & más"]
    # the -> la, white -> blanca, house -> casa, & -> &, more -> más
    rows = [[float(column == place) for column in range(6)] for place in (0, 2, 1, 3, 4)]
    made = Document(io.BytesIO(filled([output("the white house & more", rows, texts[0])])))
    runs = [(run.text, bool(run.bold)) for run in made.paragraphs[0].runs]
    assert runs == [("the ", False), ("white", True), (" house & more", False)]


BODY = """<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p>
<w:r><w:t xml:space="preserve">ver </w:t></w:r><w:hyperlink w:anchor="x"><w:r><w:t>la página</w:t></w:r></w:hyperlink>
<w:r><w:t xml:space="preserve"> ahora</w:t></w:r><w:r><w:instrText>PAGE uno</w:instrText></w:r>
<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>caja</w:t></w:r></w:p></w:txbxContent></w:pict><w:t>fin</w:t></w:r>
</w:p></w:body></w:document>"""


def test_links_fields_and_text_boxes_stay(letter: bytes) -> None:
    texts, made = shouted(spoiled(letter, BODY.encode()))
    assert sorted(texts) == ["ahora", "caja", "fin", "la página", "seis", "ver"]
    assert [each.text for each in made.paragraphs[0].hyperlinks] == ["LA PÁGINA"]
    assert made.paragraphs[0].text == "VER LA PÁGINA AHORAFIN"
    assert ">CAJA</w:t>" in made.element.xml
    assert "PAGE uno" in made.element.xml


@settings(deadline=None, max_examples=30)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=30))
def test_an_output_is_only_text(text: str) -> None:
    document = Document()
    document.add_paragraph("hola ").add_run("mundo").bold = True
    _, filled = word_document(saved(document), True)
    made = Document(io.BytesIO(filled([output(f"{text}\x00", [], "hola mundo")])))
    assert made.paragraphs[0].text == text


def packed(**files: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return written.getvalue()


def spoiled(letter: bytes, xml: bytes) -> bytes:
    """The same document with another body."""
    with zipfile.ZipFile(io.BytesIO(letter)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return packed(**{**files, "word/document.xml": xml})


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY f SYSTEM "file:///etc/passwd">]>
<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">
<w:body><w:p><w:r><w:t>hola&c;&f;</w:t></w:r></w:p></w:body></w:document>"""


def test_what_is_no_document_is_refused(letter: bytes) -> None:
    for bad in (b"", b"PK\x03\x04", b"hola", packed(a=b"b"), letter[: len(letter) // 2], spoiled(letter, b"<a")):
        with pytest.raises(UsageError, match=re.escape(BAD)):
            word_document(bad, False)
    large = packed(**{"word/document.xml": b"0" * (MOST_UNPACKED + 1)})
    assert len(large) < 20_000
    for bomb in (large, packed(**{f"{number}": b"" for number in range(1001)})):
        with pytest.raises(UsageError, match="larger than 8 MiB when it is unpacked"):
            word_document(bomb, False)


def test_entities_are_not_expanded_and_no_file_is_read(letter: bytes) -> None:
    texts, filled = word_document(spoiled(letter, LAUGHS), False)
    assert texts[0] == "hola"
    assert b"root:" not in filled([output(text) for text in texts])


def test_an_archive_that_says_less_than_it_holds_is_refused(letter: bytes) -> None:
    bomb = spoiled(letter, b"<a>" + b" " * (1 << 20))
    size = (1 << 20) + 3
    assert bomb.count(size.to_bytes(4, "little")) == 2, "in the header of the file and in the directory"
    with pytest.raises(UsageError, match=re.escape(BAD)):
        word_document(bomb.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")), False)


def test_without_the_library_it_says_what_to_install(letter: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert readable_formats() == list(FORMATS)
    monkeypatch.setattr(word, "find_spec", lambda name: None)
    assert readable_formats() == [".txt", ".srt", ".html"]
    with pytest.raises(UsageError, match=re.escape("pip install 'qkv[docx]'")):
        word_document(letter, False)
