"""Languages are detected among those that are served, and nobody else waits for it."""

import asyncio
import threading
from typing import Any

import httpx2
import pytest
from py3langid.langid import LanguageIdentifier

from qkv.serving.app import create_app
from qkv.serving.config import ServeConfig, ServedModelConfig
from qkv.serving.detect import detect_language, identifier_of
from qkv.serving.service import Service
from tests.support.server import MODEL


@pytest.mark.parametrize(
    ("text", "among", "language"),
    [
        ("我们明天去北京看朋友。", ("en", "zh-Hans"), "zh-Hans"),
        ("Das ist ein schöner Tag.", ("zh-Hans", "en"), "en"),
        ("Das ist ein schöner Tag.", (), "de"),
        ("Onde está o livro?", ("es", "pt-BR"), "pt-BR"),
        ("anything", ("aa", "qq"), "aa"),
        ("👍", ("es", "en"), "es"),
    ],
)
def test_only_what_is_served_is_found(text: str, among: tuple[str, ...], language: str) -> None:
    assert detect_language(text, among).language == language


FROM = [ServedModelConfig(path=MODEL, name=code, source=code, target="en") for code in ("es", "fr")]


@pytest.mark.parametrize("asked", [("/detect", {}), ("/translate", {"source": "auto", "target": "en"})])
def test_other_requests_are_answered_while_the_detector_is_loaded(
    asked: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading waits until the other request is answered; in the event loop that would be for ever."""
    address, fields = asked
    loading, answered = threading.Event(), threading.Event()
    load = LanguageIdentifier.from_model_file

    def load_slowly(*words: Any, **settings: Any) -> Any:
        assert threading.get_ident() != loop_thread, "the event loop is blocked"
        loading.set()
        answered.wait()
        return load(*words, **settings)

    monkeypatch.setattr(LanguageIdentifier, "from_model_file", load_slowly)
    identifier_of.cache_clear()

    async def ask() -> None:
        transport = httpx2.ASGITransport(app=create_app(Service(ServeConfig(models=FROM))))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            detecting = asyncio.create_task(client.post(address, json={"q": "¿Dónde está?", **fields}))
            try:
                while not (loading.is_set() or detecting.done()):
                    await asyncio.sleep(0.001)
                assert not detecting.done(), await detecting
                assert (await client.get("/health/live")).status_code == 200
            finally:
                answered.set()
                detecting.cancel()

    loop_thread = threading.get_ident()
    asyncio.run(ask())
