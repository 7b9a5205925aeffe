"""Spans of OpenTelemetry, if it is installed; without it, nothing."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

TRACED = find_spec("opentelemetry") is not None


@contextmanager
def request_span(headers: Mapping[str, str], request_id: str) -> Iterator[Any]:
    """A span around a request, below that of the client if it sent `traceparent`; None: nobody traces."""
    if not TRACED:
        yield None
        return
    from opentelemetry import propagate, trace

    tracer = trace.get_tracer("qkv.serve")
    context = propagate.extract(dict(headers))
    attributes = {"qkv.request_id": request_id}
    with tracer.start_as_current_span("request", context, trace.SpanKind.SERVER, attributes) as span:
        yield span


def end_span(span: Any, method: str, route: str, status: int) -> None:
    """Say what became of it; no texts, keys or addresses."""
    if span is not None:
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.request.method": method, "http.route": route, "http.response.status_code": status})
