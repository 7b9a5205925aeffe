"""Hostile clients of a real server: endless bodies, many headers, hundreds of slow connections, forged addresses."""

import itertools
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from tests.support.server import MODEL, RunningServer, running

GIGABYTE = 1 << 30
BUFFERED = 64 << 20
"""Far more than what sockets hold between two processes, far less than a gigabyte."""
SETTINGS = "workers=1", "limits.header_seconds=1", "limits.body_seconds=1", "limits.per_minute=3"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running(f"{MODEL}=aa-bb", "models.0.engine=torch", *SETTINGS, "log=requests") as found:
        yield found


def connected(server: RunningServer) -> socket.socket:
    host, _, port = server.address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=120)


def answer_to(server: RunningServer, request: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    with connected(server) as client:
        with suppress(ConnectionError):
            client.sendall(request)
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    found = b""
    with suppress(ConnectionError):
        while part := client.recv(65536):
            found += part
    return found


def memory(server: RunningServer) -> int:
    """Bytes of the process that talks to clients."""
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert match
    return int(match[1]) << 10


POST = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODIES = {
    "chunks without end": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    "a length that is true": (POST + b"Content-Length: %d\r\n\r\n" % GIGABYTE, b"x" * 65536),
    "a length that is a lie": (POST + b"Content-Length: 100\r\n\r\n", b"x" * 65536),
    "tiny chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 8192),
}


@pytest.mark.parametrize(("head", "part"), BODIES.values(), ids=BODIES.keys())
def test_a_gigabyte_is_refused_without_reading_it(server: RunningServer, head: bytes, part: bytes) -> None:
    before, sent = memory(server), 0
    with connected(server) as client:
        client.sendall(head)
        with suppress(ConnectionError):
            while sent < GIGABYTE:
                client.sendall(part)
                sent += len(part)
        assert sent < BUFFERED, "the server went on reading"
        # Closing a connection with unread data resets it, which may overtake the answer.
        assert re.match(rb"HTTP/1.1 4(00|08|13) |$", read_all(client))
    assert memory(server) - before < 20 << 20
    assert httpx2.get(f"{server.address}/health").status_code == 200


@pytest.mark.parametrize("length", [b"-1", b"+5", b"1e3", b"99999999999999999999", b"5\r\nContent-Length: 6", b"5, 6"])
def test_lengths_that_are_no_lengths(server: RunningServer, length: bytes) -> None:
    found = answer_to(server, POST + b"Connection: close\r\nContent-Length: " + length + b"\r\n\r\nhello")
    assert re.match(rb"HTTP/1.1 4(00|13) ", found)


HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
HEADERS = {
    "a hundred": (HEAD + b"".join(b"X-%d: a\r\n" % n for n in range(97)) + b"\r\n", rb"HTTP/1.1 200 "),
    "too many": (HEAD + b"".join(b"X-%d: a\r\n" % n for n in range(200)) + b"\r\n", rb"HTTP/1.1 431 "),
    "one too long": (HEAD + b"X: " + b"a" * (17 << 10) + b"\r\n\r\n", rb"HTTP/1.1 4(00|31) "),
    "too long together": (HEAD + b"X: %s\r\n" % (b"a" * 1000) * 20 + b"\r\n", rb"HTTP/1.1 4(00|31) |$"),
    "without end": (HEAD + b"X: " + b"a" * (8 << 20), rb"HTTP/1.1 4(00|31) |$"),
    "no name": (HEAD + b": a\r\n\r\n", rb"HTTP/1.1 400 "),
    "a NUL": (HEAD + b"X: a\0b\r\n\r\n", rb"HTTP/1.1 400 "),
    "a long address": (HEAD.replace(b"/health", b"/" + b"a" * 9000) + b"\r\n", rb"HTTP/1.1 414 "),
}


@pytest.mark.parametrize(("request_", "expected"), HEADERS.values(), ids=HEADERS.keys())
def test_headers_have_a_number_and_a_size(server: RunningServer, request_: bytes, expected: bytes) -> None:
    assert re.match(expected, answer_to(server, request_))


def test_slow_connections_are_closed_and_hold_nobody_up(server: RunningServer) -> None:
    """200 that send headers or bodies byte by byte, or nothing at all, or do not read what they asked for."""
    beginnings = [b"", b"GET /health HTTP/1.1\r\nHost: loc", POST + b"Content-Length: 99\r\n\r\n{"]
    with ExitStack() as opened:
        slow = [opened.enter_context(connected(server)) for _ in range(200)]
        for client, beginning in zip(slow, itertools.cycle(beginnings), strict=False):
            client.sendall(beginning)
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.05):
                for client in slow:
                    with suppress(OSError):
                        client.send(b"a")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            for _ in range(20):
                assert httpx2.get(f"{server.address}/health", timeout=120).status_code == 200
            ends = [read_all(client) for client in slow]
        finally:
            stop.set()
            dripping.join()
    bodies = [
        end for end, beginning in zip(ends, itertools.cycle(beginnings), strict=False) if beginning[:4] == b"POST"
    ]
    assert all(not end or end.startswith(b"HTTP/1.1 408 ") for end in bodies)
    assert any(bodies)
    assert not any(end for end, beginning in zip(ends, itertools.cycle(beginnings), strict=False) if not beginning)


def test_a_second_request_that_does_not_end_is_closed_too(server: RunningServer) -> None:
    with connected(server) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found = b""
        while b"ok" not in found:
            found += client.recv(4096)
        client.sendall(b"GET /health HTTP/1.1\r\nHost: ")
        assert read_all(client) == b""


def test_a_client_that_does_not_read_is_let_go(server: RunningServer) -> None:
    """Its answers would fill the memory of the server."""
    descriptors = Path(f"/proc/{server.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    with connected(server) as client:
        client.setblocking(False)
        ask = b"GET /page/live.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                client.send(ask)
            except BlockingIOError:
                time.sleep(0.01)
            except ConnectionError:
                break
        else:
            raise AssertionError("the connection is still open")
    while len(list(descriptors.iterdir())) > before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def asked(server: RunningServer, forwarded: str) -> int:
    fields = {"q": "su", "source": "aa", "target": "bb"}
    headers = {"x-forwarded-for": forwarded, "x-real-ip": forwarded, "forwarded": f"for={forwarded}"}
    return httpx2.post(f"{server.address}/translate", json=fields, headers=headers, timeout=120).status_code


def test_an_address_is_not_what_a_client_says(server: RunningServer) -> None:
    statuses: list[int] = []
    began = time.monotonic()
    while 429 not in statuses:
        statuses.append(asked(server, f"203.0.113.{len(statuses)}"))
        allowed = 3 + 3 * (time.monotonic() - began) / 60
        assert statuses.count(200) <= allowed, "a forged address got a bucket of its own"
    refused = httpx2.post(f"{server.address}/translate", json={"q": "su"}, timeout=120)
    assert refused.json() == {"error": "Slowdown: 3 per 1 minute"}
    assert refused.headers["retry-after"] == "1"
    assert httpx2.get(f"{server.address}/health").status_code == 200


def test_random_addresses_make_no_new_series_and_no_log_of_themselves(server: RunningServer) -> None:
    def series() -> set[str]:
        lines = httpx2.get(f"{server.address}/metrics").text.splitlines()
        return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}

    before = series()
    secrets = [os.urandom(8).hex() for _ in range(200)]
    with httpx2.Client(base_url=server.address, timeout=120) as http:
        for secret in secrets:
            http.get(f"/{secret}/{secret}?q={secret}", headers={"x-request-id": secret, "authorization": secret})
            http.request("BREW", f"/download_file/{secret}")
    assert series() == before
    assert len(before) < 200
    written = httpx2.get(f"{server.address}/metrics").text + "".join(server.log)
    assert not any(secret in written for secret in secrets)
    records = [json.loads(line) for line in list(server.log)]
    requests = [record for record in records if record["logger"] == "qkv.requests"]
    assert "127.0.0.1" not in json.dumps(requests)
    assert len({(record["method"], record["route"]) for record in requests}) < 200
