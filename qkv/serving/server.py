"""Runs the application with uvicorn until a signal ends it."""

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from qkv.core.errors import QkvError
from qkv.serving.app import create_app
from qkv.serving.config import ServeConfig
from qkv.serving.http.connections import patient
from qkv.serving.http.guard import LARGEST_HEADERS
from qkv.serving.logs import write_logs
from qkv.serving.service import Service

REFUSING_SECONDS = 1
"""How long clients have to read that their requests were given up."""
log = logging.getLogger("qkv.serve")


class Server(uvicorn.Server):
    """Says where it listens once it does, and exits with code 0 after a signal."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self._reloads: set[asyncio.Task[None]] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        yield

    def _reload(self) -> None:
        async def reload() -> None:
            try:
                await self.service.reload()
            except QkvError as error:
                log.error("the models stay as they are: %s", error)

        task = asyncio.create_task(reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    def _end(self) -> None:
        """Finish what was begun; the second time, give it up: its clients get 503."""
        if self.should_exit:
            for task in self.server_state.tasks:
                task.cancel()
            asyncio.get_running_loop().call_later(REFUSING_SECONDS, self._cut)
        self.should_exit = True

    def _cut(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What was imported stays: without it a full collection takes 3 ms, with it 150 ms.
        gc.collect()
        gc.freeze()
        for own in [each for server in self.servers for each in server.sockets]:
            host, port = own.getsockname()[:2]
            sys.stderr.write(f"qkv: listening at http://{host}:{port}\n")


def serve(read: Callable[[], ServeConfig]) -> None:
    """Serve until SIGTERM or SIGINT; requests that were taken are answered first. SIGHUP reads the config again."""
    config = read()
    write_logs(config.log)
    server: Server | None = None
    failure: list[Exception] = []

    def fail(error: Exception) -> None:
        failure.append(error)
        if server is not None:
            server.should_exit = True

    service = Service(config, read)
    server = Server(uvicorn_config(create_app(service, fail), config), service)
    server.run()
    if failure:
        raise failure[0]


def uvicorn_config(app: ASGIApp, config: ServeConfig) -> uvicorn.Config:
    """How uvicorn runs the application."""
    return uvicorn.Config(
        app,
        host=config.host,
        port=config.port,
        # On h11, not httptools, which takes headers of any size.
        http=patient(config.limits.header_seconds),
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEADERS,
        # By default uvicorn believes whatever a client on this machine says about its address.
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=config.trusted_proxies,
        timeout_graceful_shutdown=int(config.drain_seconds) + 1,
        timeout_keep_alive=10,
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=True,
    )
