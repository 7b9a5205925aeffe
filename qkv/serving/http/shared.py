"""What the routes have in common."""

import time
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from qkv.serving.http.errors import ApiError
from qkv.serving.service import Service


def service_of(request: Request) -> Service:
    """The service behind a route."""
    service: Service = request.app.state.service
    return service


def require_key(service: Service, request: Request, fields: Mapping[str, Any]) -> str | None:
    """The name of the request's key, None if none is needed; raises ApiError if it has none.

    A key is in the field `api_key` or in the header `Authorization: Bearer`.
    """
    if service.keys is None:
        return None
    given = fields.get("api_key") or request.headers.get("authorization", "").removeprefix("Bearer ")
    key = service.keys.find(given) if isinstance(given, str) else None
    if key is None:
        raise ApiError(403, "Invalid API key")
    if not key.take(time.monotonic()):
        raise ApiError(429, f"Slowdown: {key.per_minute} per 1 minute")
    return key.name
