"""HTML: tags stay, texts are replaced, nothing is left unescaped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.serving.http.markup import Markup


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
    ],
)
def test_tags_stay_and_texts_are_replaced(page: str, texts: list[str], filled: str) -> None:
    markup = Markup(page)
    assert markup.texts == texts
    assert markup.filled([text.upper() for text in texts]) == filled


@given(st.text(max_size=60))
def test_an_output_cannot_become_a_tag(output: str) -> None:
    filled = Markup("<p>texto</p>").filled([output])
    assert filled.startswith("<p>")
    assert "<" not in filled[3:-4]


@given(st.text(alphabet="<>/ab &;!-?\"'=", max_size=40))
def test_any_page_can_be_read(page: str) -> None:
    markup = Markup(page)
    markup.filled(markup.texts)
