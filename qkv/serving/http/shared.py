"""What the routes have in common."""

import time
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from qkv.serving.http.errors import ApiError
from qkv.serving.keys import ApiKey
from qkv.serving.service import Service


def service_of(request: Request) -> Service:
    """The service behind a route."""
    service: Service = request.app.state.service
    return service


def require_key(service: Service, request: Request, fields: Mapping[str, Any]) -> str | None:
    """The name of the request's key, None if none is needed; raises ApiError if it has none, or comes too often.

    A key is in the field `api_key` or in the header `Authorization: Bearer`. How often it may be used counts for each
    key; for requests without a valid one, for each address.
    """
    now = time.monotonic()
    key = _key(service, request, fields)
    if key is not None:
        if not key.bucket.take(now):
            raise ApiError(429, f"Slowdown: {key.bucket.per_minute} per 1 minute")
        return key.name
    per_minute = service.config.limits.per_minute
    address = request.client.host if request.client else ""
    if not service.addresses.take(address, per_minute, now):
        raise ApiError(429, f"Slowdown: {per_minute} per 1 minute")
    if service.keys is not None:
        raise ApiError(403, "Invalid API key")
    return None


def _key(service: Service, request: Request, fields: Mapping[str, Any]) -> ApiKey | None:
    given = fields.get("api_key") or request.headers.get("authorization", "").removeprefix("Bearer ")
    return service.keys.find(given) if service.keys is not None and isinstance(given, str) else None
