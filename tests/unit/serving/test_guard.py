"""What every request passes: its span, its log line, the time of its body, and security headers."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import Receive, Scope, Send

from qkv.serving.config import ServeConfig, ServedModelConfig
from qkv.serving.http.guard import Guard
from qkv.serving.logs import JsonLogLines


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def asked(**request: Any) -> httpx2.Response:
    """One request to a guarded application."""
    guard = Guard(hello, ServeConfig(models=[ServedModelConfig(path=Path("es-en"))]))

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=guard)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:5000") as client:
            return await client.request(**{"method": "GET", "url": "/", **request})

    return asyncio.run(ask())


def test_a_request_is_a_span_below_that_of_its_client() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = asked(headers={"traceparent": parent})
    (span,) = spans.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 200
    assert span.attributes["qkv.request_id"] == answer.headers["x-request-id"]
    assert span.parent is not None
    assert format(span.parent.span_id, "016x") == "b7ad6b7169203331"


METHODS = ("POST", "PUT", "PATCH", "DELETE")


@pytest.mark.parametrize("method", METHODS)
def test_pages_of_other_origins_can_change_nothing(method: str) -> None:
    refused = asked(method=method, headers={"origin": "https://evil.example"})
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)
    assert asked(method=method, headers={"origin": "http://localhost:5000"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "", "[::1"])
def test_other_host_names_are_refused(host: str) -> None:
    assert asked(headers={"host": host}).status_code == 421


def test_every_answer_has_the_headers_of_a_careful_server() -> None:
    for answer in (asked(), asked(headers={"host": "evil.example"}), asked(method="POST", content=b"x" * (2 << 20))):
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe-inline" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers


def test_a_log_line_says_what_failed_but_not_what_it_said() -> None:
    try:
        raise ValueError("a text of a client")
    except ValueError as error:
        record = logging.LogRecord("qkv.serve", logging.ERROR, "", 0, "request %s failed", ("7",), None)
        record.exc_info = (type(error), error, error.__traceback__)
    line = JsonLogLines().format(record)
    assert json.loads(line)["message"] == "request 7 failed"
    assert json.loads(line)["exception"] == "ValueError"
    assert "client" not in line
