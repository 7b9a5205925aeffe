"""HTML: tags stay, texts are replaced, nothing is left unescaped."""

import random
import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qkv.serving.html.markup import Markup
from qkv.translate.output import Translation


def output(text: str, alignment: list[list[float]] | None = None, src: str = "") -> Translation:
    """A translation whose tokens are its words and marks."""
    tokens, src_tokens = (re.findall(r"\w+|[^\w\s]", side) for side in (text, src))
    return Translation(text, 0.0, tokens, [], [*src_tokens, "</s>"], alignment=alignment)


@pytest.mark.parametrize(
    ("page", "texts", "filled"),
    [
        ("<p>Hola <b>mundo</b>.</p>", ["Hola", "mundo", "."], "<p>HOLA <b>MUNDO</b>.</p>"),
        ('<a href="x?a=1&amp;b=2">uno &amp; dos</a>', ["uno & dos"], '<a href="x?a=1&amp;b=2">UNO &amp; DOS</a>'),
        ("<script>var a = 1 < 2;</script>tres", ["tres"], "<script>var a = 1 < 2;</script>TRES"),
        ("<!-- no --><br/>  cuatro  ", ["cuatro"], "<!-- no --><br/>  CUATRO  "),
        ("sin etiquetas", ["sin etiquetas"], "SIN ETIQUETAS"),
        ('<span translate="no">qkv</span> es', ["es"], '<span translate="no">qkv</span> ES'),
        ("", [], ""),
        ("<code>&lt;script&gt;</code> x", ["x"], "<code>&lt;script&gt;</code> X"),
        ('<b translate="no">&lt;img&gt;<b>a</b> b</b> c', ["c"], '<b translate="no">&lt;img&gt;<b>a</b> b</b> C'),
        ('<img translate="no"> d', ["d"], '<img translate="no"> D'),
        ("<b>a</b> <i>b</i>", ["a", "b"], "<b>A</b> <i>B</i>"),
        ("a<![CDATA[x < y]]>b", ["a", "b"], "A<![CDATA[x < y]]>B"),
        ("<script>if (a < b) {", [], "<script>if (a < b) {"),
        ("a <script>b</b", ["a"], "A <script>b</b"),
        ("<!DOCTYPE html><?pi?><P CLASS=x>a</P >", ["a"], "<!DOCTYPE html><?pi?><P CLASS=x>A</P >"),
    ],
)
def test_tags_stay_and_texts_are_replaced(page: str, texts: list[str], filled: str) -> None:
    markup = Markup(page)
    assert markup.texts == texts
    assert markup.filled([output(text.upper()) for text in texts]) == filled


@given(st.text(max_size=60))
def test_an_output_cannot_become_a_tag(text: str) -> None:
    filled = Markup("<p>texto</p>").filled([output(text)])
    assert filled.startswith("<p>")
    assert "<" not in filled[3:-4]


@pytest.mark.parametrize("section", ["<![;>", "<![bad[x]>", "<![if !a]>"])
def test_marked_sections_stay_as_they_are(section: str) -> None:
    markup = Markup(f"<p>hola {section}")
    assert markup.texts[:1] == ["hola"]
    assert markup.filled([output("hi") for _ in markup.texts]).startswith(f"<p>hi {section}")


@example("<![;", False)
@given(st.text(alphabet="<>/ab &;!-?[]\"'=", max_size=40), st.booleans())
def test_any_page_can_be_read_and_what_stays_is_not_changed(page: str, whole: bool) -> None:
    markup = Markup(page, whole)
    filled = markup.filled([output(text) for text in markup.texts])
    if not markup.texts:
        assert filled == page


def links(*pairs: tuple[int, int], tgt: int, src: int) -> list[list[float]]:
    """An alignment of words: 0.9 on each pair of target and source."""
    return [[0.9 if (row, column) in pairs else 0.01 for column in range(src + 1)] for row in range(tgt)]


def test_an_inline_tag_goes_where_its_words_go() -> None:
    markup = Markup('<p>la <b>casa</b> <a href="x">blanca</a>.</p>', whole=True)
    assert markup.texts == ["la casa blanca."]
    order = links((0, 0), (1, 2), (2, 1), (3, 3), tgt=4, src=4)
    found = output("the white house.", order, "la casa blanca.")
    assert markup.filled([found]) == '<p>the <a href="x">white</a> <b>house</b>.</p>'


def test_nested_and_lost_elements_are_there_once() -> None:
    markup = Markup("<i>muy <b>bien</b></i> <u>ya</u> hoy", whole=True)
    assert markup.texts == ["muy bien ya hoy"]
    found = output("fine & today", links((0, 1), (1, 0), (2, 3), tgt=3, src=4), "muy bien ya hoy")
    filled = markup.filled([found])
    assert filled == "<u></u><i><b>fine</b> &amp;</i> today"


def test_a_tag_around_all_of_it_stays_there() -> None:
    markup = Markup("<p><b>uno dos</b></p><p>tres<br>cuatro</p>", whole=True)
    assert markup.texts == ["uno dos", "tres", "cuatro"]
    assert markup.filled([output(t.upper()) for t in markup.texts]) == "<p><b>UNO DOS</b></p><p>TRES<br>CUATRO</p>"


@given(st.text(alphabet="ab <&", max_size=20), st.integers(0, 2**32))
def test_every_tag_is_there_once_whatever_the_alignment(text: str, seed: int) -> None:
    page = "<b>a <i>b</i></b> c <u>d <s>e</s></u> f"
    chance, words = random.Random(seed), text.split()
    weights = [[chance.random() for _ in range(7)] for _ in output(text).tokens]
    filled = Markup(page, whole=True).filled([output(" ".join(words), weights, "a b c d e f")])
    tags = re.findall(r"</?\w>", filled)
    assert sorted(tags) == sorted(re.findall(r"</?\w>", page))
    opened: list[str] = []
    for tag in tags:
        if tag[1] == "/":
            assert opened.pop() == tag.replace("/", "")
        else:
            opened.append(tag)
    assert unescape(re.sub(r"</?\w>", "", filled)) == " ".join(words)
