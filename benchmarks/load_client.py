"""Clients that need little processor time, since they share the machine with the server that they measure.

HTTP/1.1 over connections that stay open; of an answer only the status and the body are read.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

NONE = -1
"""The status of a request that was not answered."""


class Answered(NamedTuple):
    """What a request was answered with."""

    status: int
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


class Connection(asyncio.Protocol):
    """Asks one thing after the other."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.lower().split(b"\r\n")
        headers = dict(line.split(b":", 1) for line in lines[1:])
        if len(body) >= int(headers[b"content-length"]):
            self._received = b""
            self.closed = headers.get(b"connection", b"").strip() == b"close"
            self._give(int(lines[0].split()[1]), body)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._give(NONE, b"")

    def _give(self, status: int, body: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((status, body))

    async def ask(self, request: bytes) -> Answered:
        """The answer to one request."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        self._transport.write(request)
        status, body = await self._answer
        return Answered(status, body, time.perf_counter() - began)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def post_all(address: str, path: str, bodies: Iterable[Any], connections: int) -> list[Answered]:
    """The answers to all of these, as JSON, in order; so many connections ask at once."""
    to = urlsplit(address)
    host, port = to.hostname or "localhost", to.port or 80
    requests = enumerate(_posts(to.netloc, path, bodies))
    found: dict[int, Answered] = {}

    async def ask_on() -> None:
        connection = None
        for number, request in requests:
            try:
                if connection is None or connection.closed:
                    loop = asyncio.get_running_loop()
                    connection = (await loop.create_connection(Connection, host, port))[1]
                found[number] = await connection.ask(request)
            except OSError:
                found[number] = Answered(NONE, b"", 0.0)
        if connection is not None:
            connection.close()

    await asyncio.gather(*(ask_on() for _ in range(connections)))
    return [found[number] for number in sorted(found)]


def _posts(host: str, path: str, bodies: Iterable[Any]) -> Iterator[bytes]:
    for body in bodies:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        yield f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
