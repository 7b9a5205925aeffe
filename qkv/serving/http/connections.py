"""Connections that do not send a request, or do not read its answer, are closed."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_IGNORED = 8 << 20
"""Bytes of a refused body that are read before the connection is cut."""


def patient(seconds: float) -> type[H11Protocol]:
    """uvicorn's h11, which waits so long for the headers of a request, and for a client that does not read what it
    asked for; uvicorn itself waits for ever."""

    class PatientProtocol(H11Protocol):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self._waiting: asyncio.TimerHandle | None = None
            self._stalled: asyncio.TimerHandle | None = None
            self._ignored = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._answered_early():
                self._ignored += len(data)
                if self._ignored > MOST_IGNORED:
                    self.transport.abort()
                self._wait()
            elif self.conn.their_state is h11.IDLE:
                self._wait()
            else:
                self._stop_waiting()

        def _answered_early(self) -> bool:
            """Whether what arrives is the rest of a body that was refused. It is read for a while and thrown away: a
            connection that is closed with data unread is reset, and the client might not see the answer."""
            return self.conn.our_state in (h11.DONE, h11.MUST_CLOSE) and self.conn.their_state is h11.SEND_BODY

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            self._stop_stalling()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            # Not `close`, which would first send what nobody reads.
            self._stalled = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._stop_stalling()
            super().resume_writing()

        def _wait(self) -> None:
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().call_later(seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _stop_stalling(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
                self._stalled = None

    return PatientProtocol
