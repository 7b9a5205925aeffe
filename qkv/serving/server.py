"""Runs the application with uvicorn until a signal ends it."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from qkv.serving.app import create_app
from qkv.serving.config import ServeConfig

LARGEST_HEADERS = 16 << 10


class Server(uvicorn.Server):
    """Says where it listens once it does, and exits with code 0 after a signal."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        """Finish what was begun; the second time, end at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for own in [each for server in self.servers for each in server.sockets]:
            host, port = own.getsockname()[:2]
            sys.stderr.write(f"qkv: listening at http://{host}:{port}\n")


def serve(config: ServeConfig) -> None:
    """Serve until SIGTERM or SIGINT; requests that were taken are answered first."""
    server: Server | None = None
    failure: list[Exception] = []

    def fail(error: Exception) -> None:
        failure.append(error)
        if server is not None:
            server.should_exit = True

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    # h11, not httptools, which takes headers of any size.
    settings = uvicorn.Config(
        create_app(config, fail),
        host=config.host,
        port=config.port,
        http="h11",
        ws="none",
        h11_max_incomplete_event_size=LARGEST_HEADERS,
        timeout_graceful_shutdown=int(config.drain_seconds) + 1,
        timeout_keep_alive=10,
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=True,
    )
    server = Server(settings)
    server.run()
    if failure:
        raise failure[0]
