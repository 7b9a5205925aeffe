"""Runs the application with uvicorn until a signal ends it."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from qkv.core.errors import QkvError
from qkv.serving.app import create_app
from qkv.serving.config import ServeConfig
from qkv.serving.http.connections import patient
from qkv.serving.logs import write_logs
from qkv.serving.service import Service

LARGEST_HEADERS = 16 << 10
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
        """Finish what was begun; the second time, end at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
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
    settings = uvicorn.Config(
        create_app(service, fail),
        host=config.host,
        port=config.port,
        # On h11, not httptools, which takes headers of any size.
        http=patient(config.limits.header_seconds),
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEADERS,
        timeout_graceful_shutdown=int(config.drain_seconds) + 1,
        timeout_keep_alive=10,
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=True,
    )
    server = Server(settings, service)
    server.run()
    if failure:
        raise failure[0]
