"""What every request passes first: its size, the host it was sent to, the page it comes from."""

import asyncio
import secrets
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qkv.serving.config import LOOPBACK, ServeConfig
from qkv.serving.http.errors import ApiError, error_response
from qkv.serving.logs import log_request
from qkv.serving.tracing import end_span, request_span

LONGEST_URL = 8192
LARGEST_HEADERS = 16 << 10
MOST_HEADERS = 100
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
REQUEST_ID = "x-request-id"
UNANSWERED = 499
"""What is logged of a request whose client left."""


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, app: ASGIApp, config: ServeConfig) -> None:
        self.app, self.config = app, config
        self.hosts = {name.lower() for name in (*LOOPBACK, *config.hosts, config.host)} - {"0.0.0.0", "::"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = scope["request_id"] = secrets.token_hex(8)
        began, status = time.perf_counter(), UNANSWERED

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = MutableHeaders(scope=message)
                own.update(SECURITY | {REQUEST_ID: request_id} | self._cors(headers.get("origin")))
            await send(message)

        with request_span(headers, request_id) as span:
            try:
                await self._answer(scope, headers, receive, send_guarded)
            except asyncio.CancelledError:
                # Only a server that does not wait for its requests any more cancels them.
                if status == UNANSWERED:
                    await error_response(503, "the server is shutting down")(scope, receive, send_guarded)
            finally:
                route = getattr(scope.get("route"), "path", "none")
                end_span(span, scope["method"], route, status)
                log_request(request_id, scope["method"], route, status, time.perf_counter() - began)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await error_response(*refusal)(scope, receive, send)
        elif scope["method"] == "OPTIONS" and headers.get("access-control-request-method"):
            await Response(status_code=204)(scope, receive, send)
        else:
            await self._pass_on(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        length = headers.get("content-length", "0")
        if (
            len(headers.raw) > MOST_HEADERS
            or sum(len(name) + len(value) for name, value in headers.raw) > LARGEST_HEADERS
        ):
            return 431, f"there are more than {MOST_HEADERS} headers or {LARGEST_HEADERS} bytes of them"
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_URL:
            return 414, f"the address is longer than {LONGEST_URL} bytes"
        if _host_name(headers.get("host", "")) not in self.hosts:
            return 421, "this server does not answer to that host name"
        origin = headers.get("origin")
        if scope["method"] not in SAFE_METHODS and origin is not None and not self._trusted(origin, headers):
            return 403, "requests from pages of this origin are not allowed"
        if not length.isdigit() or int(length) > self.config.limits.body_bytes:
            return self._too_large
        return None

    @property
    def _too_large(self) -> tuple[int, str]:
        return 413, f"the body is larger than {self.config.limits.body_bytes} bytes"

    def _trusted(self, origin: str, headers: Headers) -> bool:
        host = headers.get("host")
        return origin in (*self.config.origins, f"http://{host}", f"https://{host}")

    def _cors(self, origin: str | None) -> dict[str, str]:
        if origin is None or origin not in self.config.origins:
            return {}
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-headers": "content-type, authorization",
            "access-control-allow-methods": "GET, POST",
            "vary": "origin",
        }

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the bytes of the body while they arrive: a client need not say beforehand how many there are.

        All of them must have arrived in time.
        """
        received, complete = 0, False
        limit = self.config.limits.body_seconds
        deadline = asyncio.get_running_loop().time() + limit

        async def receive_counted() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError as error:
                raise ApiError(408, f"the body was not complete after {limit:g} seconds") from error
            complete = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > self.config.limits.body_bytes:
                raise ApiError(*self._too_large)
            return message

        await self.app(scope, receive_counted, send)


def _host_name(host: str) -> str:
    """`localhost` of `localhost:5000`."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
