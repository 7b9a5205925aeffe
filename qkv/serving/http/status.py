"""Whether the server lives and works: /health and /metrics."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from qkv.serving.http.errors import ApiError
from qkv.serving.http.libre_schemas import HealthStatus
from qkv.serving.http.openapi import Responses, answered, describe
from qkv.serving.http.shared import service_of

router = APIRouter(tags=["status"])
METRICS: Responses = {200: {"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/health", responses=answered(HealthStatus))
@router.get("/health/live", responses=answered(HealthStatus))
async def live() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


NOT_READY: Responses = {503: {"description": "No worker has its models loaded yet.", "model": HealthStatus}}


@router.get("/health/ready", responses=answered(HealthStatus) | NOT_READY)
async def ready(request: Request) -> JSONResponse:
    """A worker is there, with its models loaded."""
    if service_of(request).queue.ready:
        return JSONResponse({"status": "ready"})
    return JSONResponse({"status": "not ready"}, 503, {"Retry-After": "1"})


@router.get("/openapi.json", include_in_schema=False)
@router.get("/spec", include_in_schema=False)
async def description(request: Request) -> JSONResponse:
    """The description of all addresses, in OpenAPI."""
    return JSONResponse(describe(request.app))


@router.get("/metrics", responses=answered(None) | METRICS, response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Counters in the text format of Prometheus; they hold no texts, keys or addresses."""
    service = service_of(request)
    if not service.config.metrics:
        raise ApiError(404, "metrics are switched off")
    queue = service.queue
    counters: dict[str, tuple[str, Any]] = {
        "requests": ("Requests for translations that were taken.", queue.counts.requests),
        "refused": ("Requests that were refused because too many were waiting.", queue.counts.refused),
        "cancelled": ("Requests whose client left or whose time was up.", queue.counts.cancelled),
        "batches": ("Batches that were decoded.", queue.counts.batches),
        "texts": ("Texts that were decoded.", queue.counts.texts),
        "stopped_batches": ("Batches that ended after their clients had left.", queue.counts.stopped),
        "worker_deaths": ("Worker processes that died and were replaced.", queue.counts.deaths),
    }
    gauges = {
        "open_requests": ("Requests that wait or are worked on.", queue.open_requests),
        "slowest_stop_seconds": ("The most seconds that such a stop took.", round(queue.counts.slowest_stop, 6)),
        "running_batches": ("Batches that workers work on.", len(queue.running)),
        "waiting_texts": ("Texts that wait for a worker.", len(queue.waiting)),
        "ready_workers": ("Workers that can take a batch.", sum(each.ready.is_set() for each in queue.workers)),
    }
    lines = [
        line
        for kind, values, suffix in (("counter", counters, "_total"), ("gauge", gauges, ""))
        for name, (text, value) in values.items()
        for line in (
            f"# HELP qkv_{name}{suffix} {text}",
            f"# TYPE qkv_{name}{suffix} {kind}",
            f"qkv_{name}{suffix} {value}",
        )
    ]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
