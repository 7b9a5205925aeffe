"""Server-sent events."""

import json
from collections.abc import AsyncIterator
from typing import Any

from qkv.serving.http.errors import ApiError


def event(name: str, data: Any) -> bytes:
    """One event; JSON has no line end in it."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


async def first_of(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same events, of which the first one is there: what is refused before it is refused with a status.

    What goes wrong later becomes an event `error`.
    """
    first = await anext(events)

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        try:
            async for each in events:
                yield each
        except ApiError as error:
            yield event("error", {"error": error.message, "status": error.status})

    return all_of_them()
