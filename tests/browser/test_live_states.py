"""The page of `qkv serve` when its server is busy, gone or refusing, says strange things, or is still loading."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import Watched
from tests.support.live import LiveServer
from tests.support.payloads import PAYLOADS

if TYPE_CHECKING:
    from playwright.sync_api import Route

TEXT = "No sé."


def answering(status: int, message: str, **headers: str) -> Callable[["Route"], None]:
    """A server that refuses, as ours does."""
    return lambda route: route.fulfill(status=status, json={"error": message}, headers=headers)


REFUSALS = {
    "busy": (answering(429, "Slowdown", **{"Retry-After": "2"}), "The server is busy. Trying again in"),
    "draining": (answering(503, "the server is shutting down", **{"Retry-After": "2"}), "is shutting down"),
    "restarting": (answering(503, "a worker process died; try again", **{"Retry-After": "2"}), "is being replaced"),
    "gone": (lambda route: route.abort(), "The server does not answer"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_is_wrong_is_said_and_tried_again(watched: Watched, server: LiveServer, kind: str) -> None:
    refuse, said = REFUSALS[kind]
    watched.visit(server.address)
    watched.page.route("**/v1/translate", refuse)
    watched.page.locator("#source").fill(TEXT)
    notice = watched.page.locator(f".notice.{kind}")
    notice.wait_for(timeout=30_000)
    assert said in notice.inner_text()
    watched.page.unroute("**/v1/translate")
    watched.expect_text(".words", "I don't know.")
    assert notice.count() == 0, "it was tried again by itself"


def test_a_key_is_asked_for_and_sent(watched: Watched, server: LiveServer) -> None:
    def guard(route: "Route") -> None:
        if route.request.headers.get("authorization") == "Bearer right":
            route.continue_()
        else:
            answering(403, "Invalid API key")(route)

    watched.visit(server.address)
    watched.page.route("**/v1/*", guard)
    watched.page.locator("#source").fill(TEXT)
    for key in ("wrong", "right"):
        watched.page.get_by_label("API key").fill(key)
        watched.page.get_by_role("button", name="Use it").click()
    watched.expect_text(".words", "I don't know.")
    assert watched.page.evaluate("sessionStorage.getItem('qkv.key')") == '"right"'
    assert watched.page.evaluate("JSON.stringify(localStorage)").count("right") == 0
    assert "right" not in watched.page.url


def test_an_example_is_there_before_the_model(watched: Watched, server: LiveServer) -> None:
    loading = True

    def told(route: "Route") -> None:
        answer = route.fetch()
        route.fulfill(json={**answer.json(), "ready": not loading})

    watched.page.route("**/v1/server", told)
    watched.visit(server.address)
    watched.expect_text(".words", "I like reading books.")
    watched.page.locator("#tab-equation").click()
    assert "An example, computed beforehand" in watched.page.locator(".notice").inner_text()
    assert watched.page.locator("#panel h3").count() > 3
    loading = False
    watched.page.locator(".notice").wait_for(state="detached", timeout=60_000)
    watched.expect_text(".words", "I like reading books.")
    assert watched.page.locator(".speed").inner_text()
    assert watched.wrong == []


def translation(words: list[str]) -> dict[str, Any]:
    """An answer that consists of given words."""
    one = {"text": " ".join(words), "score": 0.0, "tokens": words, "token_scores": [-1.0] * (len(words) + 1)}
    more = {"truncated": True, "parts": 1, "split_at": None, "src_tokens": words, "unknown": words[:5]}
    return {**one, **more, "alternatives": [], "alignment": [[0.5] * len(words)] * len(words)}


def hostile(route: "Route") -> None:
    """A server that answers with texts which try to run."""
    path = route.request.url.rsplit("/v1/", 1)[1]
    if path == "server":
        told = route.fetch().json()
        kinds = ("name", "source_name", "target_name")
        told["models"] = [{**told["models"][0], **dict.fromkeys(kinds, payload)} for payload in PAYLOADS]
        route.fulfill(json=told)
    elif path == "translate":
        count = len(json.loads(route.request.post_data or "{}")["texts"])
        made = translation(PAYLOADS)
        made["alternatives"] = [translation([payload]) for payload in PAYLOADS[:5]]
        made["likely"] = [[{"token": payload, "probability": 0.1} for payload in PAYLOADS[:9]] for _ in PAYLOADS]
        answer = {"model": PAYLOADS[0], "engine": PAYLOADS[1], "seconds": 0.1, "translations": [made] * count}
        route.fulfill(json=answer)
    else:
        route.fulfill(status=400, json={"error": PAYLOADS[16]})


def test_sixty_payloads_stay_text(watched: Watched, server: LiveServer) -> None:
    watched.page.route("**/v1/*", hostile)
    watched.visit(server.address)
    for start in range(0, 60, 20):
        watched.page.locator("#source").fill("\n".join(PAYLOADS[start : start + 20]))
        watched.page.locator(".output:not(.stale) .unit").first.wait_for()
    watched.page.locator(".unit").nth(3).click()
    watched.page.locator("[role=option]").first.wait_for()
    for name in ("History", "Code", "Compare"):
        watched.page.get_by_role("button", name=name, exact=True).click()
    watched.page.locator("#source").fill(PAYLOADS[0])
    watched.page.get_by_text("The inside cannot be shown").wait_for()
    assert PAYLOADS[16] in watched.page.locator(".empty").inner_text()
    assert watched.page.evaluate("window.ran") is None
    assert (
        watched.page.locator("#app :is(script, iframe, img, object, embed, math, audio, video, link, base)").count()
        == 0
    )
    assert [wrong for wrong in watched.wrong if "status of 400" not in wrong] == []
    for payload in PAYLOADS[:20]:
        watched.page.evaluate("text => { location.hash = `text=${text}&model=${text}&search=${text}` }", payload)
    assert watched.page.evaluate("window.ran") is None


def test_right_to_left(watched: Watched, server: LiveServer) -> None:
    from playwright.sync_api import expect

    def arabic(route: "Route") -> None:
        answer = {"model": "x", "engine": "torch", "seconds": 0.1, "translations": [translation(["مرحبا", "بالعالم"])]}
        route.fulfill(json=answer)

    watched.page.route("**/v1/translate", arabic)
    watched.page.route("**/v1/see", lambda route: route.fulfill(status=400, json={"error": "no"}))
    watched.visit(server.address)
    watched.page.locator("#source").fill("שלום עולם")
    # The bundled example, which is shown first, has units, too.
    watched.page.locator(".unit", has_text="بالعالم").wait_for()
    for selector in ("#source", ".mirror", ".words"):
        expect(watched.page.locator(selector)).to_have_css("direction", "rtl", timeout=30_000)
    first, second = (watched.page.locator(".unit").nth(place).bounding_box() for place in (0, 1))
    assert first is not None
    assert second is not None
    assert first["x"] > second["x"]
    watched.page.locator(".unit").first.focus()
    watched.page.keyboard.press("ArrowLeft")
    assert watched.page.evaluate("document.activeElement.textContent") == "بالعالم"


def test_a_late_frame_does_not_select_what_was_typed(watched: Watched, server: LiveServer) -> None:
    from playwright.sync_api import expect

    watched.visit(server.address)
    source = watched.page.locator("#source")
    expect(source).not_to_have_value("", timeout=30_000)
    watched.page.evaluate("() => { window.late = []; window.requestAnimationFrame = (f) => late.push(f) }")
    source.focus()
    watched.page.keyboard.press("Control+a")
    watched.page.keyboard.type(TEXT[:2])
    watched.page.evaluate("() => late.forEach((f) => f(performance.now()))")
    watched.page.keyboard.type(TEXT[2:])
    assert source.input_value() == TEXT


def test_by_keyboard_alone(watched: Watched, server: LiveServer) -> None:
    watched.visit(server.address)
    keyboard = watched.page.keyboard
    watched.page.get_by_role("button", name="Code", exact=True).wait_for()
    keyboard.press("?")
    assert watched.page.get_by_role("complementary", name="Keys").is_visible()
    keyboard.press("Escape")
    keyboard.press("/")
    assert watched.page.evaluate("document.activeElement.id") == "source"
    keyboard.press("Control+a")
    keyboard.type(TEXT)
    watched.expect_text(".words", "I don't know.")
    for wanted in ("SELECT", "BUTTON", "SPAN"):
        keyboard.press("Tab")
        assert watched.page.evaluate("document.activeElement.tagName") == wanted
    keyboard.press("ArrowRight")
    assert watched.page.evaluate("document.activeElement.textContent") == "don't"
    assert watched.page.locator(".mirror .lit").count() > 0
    keyboard.press("Enter")
    watched.page.locator("[role=option]:focus").wait_for(timeout=60_000)
    keyboard.press("Escape")
    assert watched.page.evaluate("document.activeElement.textContent") == "don't"
    watched.page.locator("#panel").wait_for(timeout=60_000)
    watched.page.locator("#panel").focus()
    keyboard.press("3")
    watched.page.locator("#tab-matrix[aria-selected=true]").wait_for()


def test_the_interface_in_chinese_stays_so(watched: Watched, server: LiveServer) -> None:
    watched.visit(server.address)
    watched.page.get_by_role("button", name="中文").click()
    watched.page.get_by_role("button", name="历史").wait_for()
    watched.visit(server.address)
    watched.page.get_by_role("button", name="历史").wait_for()
    assert watched.page.evaluate("document.documentElement.lang") == "zh-Hans"


@pytest.mark.parametrize(("width", "theme"), [(360, "dark"), (768, "light"), (1440, "dark")])
def test_widths_and_themes_without_anything_serious(
    watched: Watched, server: LiveServer, axe: str, width: int, theme: str
) -> None:
    watched.page.set_viewport_size({"width": width, "height": 800})
    watched.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    watched.visit(server.address, "text=No+s%C3%A9.&model=es-en&model2=es-en&search2=%7B%22kind%22%3A%22greedy%22%7D")
    watched.page.locator(".words").nth(1).wait_for(timeout=60_000)
    watched.page.get_by_role("button", name="Code", exact=True).click()
    watched.page.locator(".select").first.click()
    watched.page.locator("#panel").wait_for(timeout=60_000)
    watched.page.evaluate(axe)
    found = watched.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    bad = [
        (each["id"], each["nodes"][0]["html"])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert bad == []
    assert watched.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert watched.wrong == []
