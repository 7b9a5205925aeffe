"""The page of `qkv serve` in Chromium, on a real server with the model that comes with the package."""

import io
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import docx
import pytest

from qkv import Translator
from qkv.client import Client
from tests.support.browser import VIEWS, Watched
from tests.support.live import LiveServer

TEXT = "El gato se sentó en la silla de mi hermana."


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return Translator("es-en").translate(TEXT, nbest=3, alignment=True).as_dict()


@pytest.fixture
def live(watched: Watched, server: LiveServer) -> Watched:
    watched.visit(server.address)
    watched.page.locator(".speed").wait_for(timeout=60_000)
    watched.page.locator("#source").fill("")
    return watched


TYPE_AT_ONCE = """text => {
  const box = document.querySelector("#source");
  for (let end = 1; end <= text.length; end++) {
    box.value = text.slice(0, end);
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }
}"""
"""Letter by letter, and no time between two of them, however slow the machine is."""


def translated(live: Watched, text: str = TEXT) -> None:
    """Give a text, and wait for its translation and for the inside of the model."""
    live.page.locator("#source").fill(text)
    live.page.locator(".output:not(.stale) .unit").first.wait_for(timeout=60_000)


def test_it_translates_as_one_types_and_cancels_what_is_no_longer_wanted(live: Watched, expected: Any) -> None:
    sent: list[str] = []
    live.page.on("request", lambda request: sent.append(request.url) if "/v1/translate" in request.url else None)
    live.page.evaluate(TYPE_AT_ONCE, TEXT)
    live.expect_text(".words", expected["text"])
    assert len(sent) == 1, "a pause is awaited"
    others = [row.split("\n") for row in live.texts(".others li")]
    assert [row[1] for row in others] == [each["text"] for each in expected["alternatives"]]
    assert live.wrong == []


def test_words_point_at_the_source_and_are_shaded_by_probability(live: Watched, expected: Any) -> None:
    translated(live)
    cat = live.page.get_by_role("button", name="cat", exact=True)
    cat.hover()
    lit = live.page.locator(".mirror .lit").first
    assert lit.inner_text() == "gato"
    wanted = expected["alignment"][1][expected["src_tokens"].index("▁gato")]
    shown = float(lit.evaluate("element => element.style.getPropertyValue('--look')"))
    assert shown == pytest.approx(wanted, abs=1e-3)
    sure = float(cat.evaluate("element => element.style.getPropertyValue('--sure')"))
    assert sure == pytest.approx(2.718281828 ** expected["token_scores"][1], abs=1e-3)


def test_a_word_is_replaced_and_the_rest_decoded_again(live: Watched) -> None:
    translated(live)
    live.page.get_by_role("button", name="chair", exact=True).click()
    options = live.page.locator("[role=option]")
    options.first.wait_for(timeout=60_000)
    words = live.texts("[role=option] .word-of")
    assert words[0] == "chair"
    shares = [float(text.replace("<", "").split()[0]) for text in live.texts("[role=option] .number")]
    assert shares == sorted(shares, reverse=True)
    live.page.keyboard.press("ArrowDown")
    live.page.keyboard.press("Enter")
    live.page.locator(".unit.kept").first.wait_for(timeout=60_000)
    chosen = live.page.locator(".words").inner_text()
    assert chosen.startswith(f"The cat sat on my sister's {words[1]}")
    assert "begin=" in live.page.url
    live.page.get_by_role("button", name="Let go").click()
    live.page.locator(".unit.kept").first.wait_for(state="detached", timeout=60_000)
    assert live.wrong == []


def test_settings_are_those_of_the_model_and_act_at_once(live: Watched) -> None:
    translated(live)
    live.page.get_by_role("button", name="Search: Beam 5").click()
    dialog = live.page.get_by_role("dialog", name="Search settings")
    assert dialog.get_by_role("slider").count() == 3
    assert "Refinement" not in dialog.inner_text()
    dialog.get_by_role("slider", name="Length").fill("2")
    live.page.locator(".difference ins").first.wait_for(timeout=60_000)
    longer = live.page.locator(".words").inner_text()
    search = {"kind": "beam", "size": 5, "length_factor": 2.0}
    assert longer == Translator("es-en", search=search).translate(TEXT).text
    dialog.get_by_role("button", name="Sampling").click()
    dialog.get_by_role("slider", name="Temperature").fill("0.5")
    live.page.get_by_role("button", name="Search: Sampling 0.5").wait_for()
    live.page.keyboard.press("Escape")
    assert dialog.count() == 0
    assert live.page.evaluate("document.activeElement.className") == "select"
    assert live.wrong == []


def test_another_output_is_taken_and_a_smaller_beam_gives_fewer(live: Watched, expected: Any) -> None:
    translated(live)
    others = [each["text"] for each in expected["alternatives"]]
    live.page.get_by_role("button", name=others[0], exact=True).click()
    live.expect_text(".words", others[0])
    live.page.locator(".unit.kept").first.wait_for(timeout=60_000)
    live.page.get_by_role("button", name="Let go").click()
    live.expect_text(".words", expected["text"])
    live.page.get_by_role("button", name="Search: Beam 5").click()
    live.page.get_by_role("slider", name="Beam size").fill("2")
    live.page.get_by_role("button", name="Search: Beam 2").wait_for()
    live.page.locator(".others li").nth(1).wait_for(state="detached", timeout=60_000)
    assert live.page.locator(".others li").count() == 1
    assert live.wrong == []


def test_two_searches_beside_each_other_with_their_speed(live: Watched) -> None:
    translated(live)
    live.page.get_by_role("button", name="Compare").click()
    live.page.locator(".words").nth(1).wait_for(timeout=60_000)
    live.page.get_by_role("button", name="Search: Greedy").wait_for()
    assert all("ms" in text and "tokens/s" in text for text in live.texts(".speed"))
    live.page.get_by_role("heading", name="es-en, greedy").wait_for(timeout=60_000)
    assert live.page.locator("#panel section").count() == 2
    live.page.get_by_role("button", name="Compare").click()
    assert live.page.locator(".words").count() == 1


def test_every_view_is_live(live: Watched) -> None:
    translated(live)
    live.page.locator("#panel").wait_for(timeout=60_000)
    for view in VIEWS:
        live.page.locator(f"#tab-{view}").click()
        assert live.page.locator("[role=tabpanel] section").first.inner_text()
    live.page.locator("#tab-architecture").click()
    live.page.get_by_role("button", name="Cross-attention, decoder, layer 4").press("Enter")
    assert "qkv/layers/attention" in live.page.locator(".about").inner_text()
    assert live.wrong == []


DROP = """([name, content]) => {
    const data = new DataTransfer();
    data.items.add(new File([typeof content === "string" ? content : new Uint8Array(content)], name));
    dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true }));
}"""
"""Of a file, with a text or a list of bytes in it."""


def test_files_are_dropped_and_saved(live: Watched) -> None:
    live.page.get_by_role("button", name="Translate a file").wait_for()
    for name, content in (("a.txt", f"{TEXT}\n"), ("b.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{TEXT}\n")):
        live.page.evaluate(DROP, [name, content])
        row = live.page.get_by_role("listitem").filter(has_text=name)
        with live.page.expect_download() as saved:
            row.get_by_role("link", name="Save the translation").click(timeout=60_000)
        wanted = Translator("es-en").translate(TEXT).text
        assert Path(saved.value.path()).read_text() == content.replace(TEXT, wanted)
        assert saved.value.suggested_filename == f"{name[0]}_en{name[1:]}"
    live.page.evaluate(DROP, ["x.exe", "x"])
    assert "Only .txt, .srt, .html, .docx" in live.page.get_by_role("alert").inner_text()
    live.page.locator("input[type=file]").set_input_files(
        {"name": "p.html", "mimeType": "text/html", "buffer": f"<p>{TEXT}</p>".encode()}
    )
    live.page.get_by_role("link").nth(2).wait_for(timeout=60_000)
    assert live.wrong == []


def test_a_word_document_is_dropped_and_keeps_its_format(live: Watched) -> None:
    document = docx.Document()
    document.add_heading("La casa", 1)
    document.add_paragraph(TEXT).runs[0].bold = True
    written = io.BytesIO()
    document.save(written)
    live.page.get_by_role("button", name="Translate a file").wait_for()
    live.page.evaluate(DROP, ["letter.docx", list(written.getvalue())])
    row = live.page.get_by_role("listitem").filter(has_text="letter.docx")
    with live.page.expect_download() as saved:
        row.get_by_role("link", name="Save the translation").click(timeout=60_000)
    assert saved.value.suggested_filename == "letter_en.docx"
    heading, paragraph = docx.Document(str(saved.value.path())).paragraphs
    wanted = [found.text for found in Translator("es-en").translate(["La casa", TEXT])]
    assert [heading.text, paragraph.text] == wanted
    assert heading.style is not None
    assert heading.style.name == "Heading 1"
    assert all(run.bold for run in paragraph.runs if run.text.strip())
    assert live.wrong == []


def test_history_stays_until_it_is_cleared(live: Watched, server: LiveServer) -> None:
    translated(live)
    live.page.get_by_role("button", name="History").click()
    assert TEXT in live.page.locator(".past").inner_text()
    translated(live, "No sé.")
    live.visit(server.address)
    live.page.get_by_role("button", name="History").click()
    live.page.locator(".past button").filter(has_text=TEXT).first.click()
    assert live.page.locator("#source").input_value() == TEXT
    live.page.get_by_role("button", name="History").click()
    live.page.get_by_role("button", name="Clear").click()
    assert live.page.evaluate("localStorage.getItem('qkv.history')") is None
    assert "Nothing" in live.page.get_by_role("region", name="History").inner_text()


def test_the_calls_give_what_is_on_the_screen(live: Watched, capfd: pytest.CaptureFixture[str]) -> None:
    text = 'It\'s $HOME `id` "ñ" \\ no sé.'
    translated(live, text)
    shown = live.page.locator(".words").inner_text()
    live.page.get_by_role("button", name="Code", exact=True).click()
    code = live.page.locator("[data-code]")
    command = shlex.split(code.inner_text().replace("\\\n", " "))
    answer = subprocess.run([*command, "-s"], capture_output=True, text=True, check=True).stdout
    assert json.loads(answer)["translations"][0]["text"] == shown
    live.page.get_by_role("button", name="Python").click()
    exec(code.inner_text(), {})
    assert capfd.readouterr().out.rstrip("\n") == shown
    live.page.get_by_role("button", name="JavaScript").click()
    script = code.inner_text().replace("console.log(", "return (")
    assert live.page.evaluate(f"async () => {{ {script} }}") == shown


def test_the_address_brings_everything_back(live: Watched, watched: Watched) -> None:
    translated(live)
    live.page.get_by_role("button", name="Compare").click()
    live.page.locator(".words").nth(1).wait_for(timeout=60_000)
    live.page.locator("#tab-matrix").click(timeout=60_000)
    address = live.page.url
    given = parse_qs(urlsplit(address).fragment)
    assert given["text"] == [TEXT]
    assert urlsplit(address).query == ""
    before = live.texts(".words")
    live.page.goto("about:blank")
    live.page.goto(address)
    live.page.locator(".words").nth(1).wait_for(timeout=60_000)
    assert live.texts(".words") == before
    assert live.page.locator("#tab-matrix").get_attribute("aria-selected") == "true"
    live.page.goto("about:blank")
    live.page.goto(f"{address.split('#')[0]}#text=No+s%C3%A9.&model=none&search=%7B&begin=x&outputs=9&view=%3Cb%3E")
    live.page.locator(".unit").first.wait_for(timeout=60_000)
    assert live.wrong == []


def test_the_same_as_the_library_and_the_client(live: Watched, server: LiveServer) -> None:
    texts = [TEXT, "No sé.", "¿Dónde está mi libro?", "Tom tiene 7 años.", "  Hola  ", "😀"]
    library = [found.text for found in Translator("es-en").translate(texts)]
    with Client(server.address) as client:
        assert client.translate(texts, "es", "en") == library
    for text, wanted in zip(texts, library, strict=True):
        live.page.locator("#source").fill(text)
        live.page.locator(".output:not(.stale)").wait_for()
        live.expect_text(".words", wanted)


def test_the_script_and_the_style_are_sent_once(watched: Watched, server: LiveServer) -> None:
    sent = "performance.getEntriesByType('resource').filter(each => /live[.](js|css)/.test(each.name))"
    sizes = []
    for _ in range(2):
        watched.visit(server.address)
        assert watched.page.evaluate(f"{sent}.every(each => each.decodedBodySize > 10000)")
        sizes.append(watched.page.evaluate(f"{sent}.map(each => each.transferSize)"))
    assert min(sizes[0]) > 10000
    assert sizes[1] == [0, 0], "the browser has them"
