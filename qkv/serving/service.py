"""What the routes of a server share: its models, its queue, and how a request is translated."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fastapi import Request

from qkv.config import load_config
from qkv.models.asked import require_seq2seq
from qkv.models.saved.folder import CONFIG, SavedConfig
from qkv.models.saved.locate import locate_model
from qkv.serving.config import ServeConfig, ServedModelConfig
from qkv.serving.files import FileShelf
from qkv.serving.http.errors import ApiError
from qkv.serving.jobs import DecodeSettings
from qkv.serving.keys import ApiKeys
from qkv.serving.pool import JobFailed, WorkerDied, WorkerProcess
from qkv.serving.queue import Draining, QueueFull, RequestQueue, loads_of
from qkv.translate.output import Translation
from qkv.translate.texts import DecodeOptions, SourceText

log = logging.getLogger("qkv.serve")


@dataclass(frozen=True)
class ServedModel:
    """A model that requests can name."""

    name: str
    source: str
    target: str
    decoding: DecodeSettings
    """How texts are decoded if a request says nothing else."""


def served(config: ServedModelConfig) -> ServedModel:
    """The model of a config; raises QkvError if it is not there."""
    folder = locate_model(config.path).resolve()
    require_seq2seq(load_config(SavedConfig, folder / CONFIG).model, config.path)
    source, target = config.languages()
    return ServedModel(
        config.shown_name,
        source,
        target,
        DecodeSettings(folder, config.engine, search_overrides(config.search), DecodeOptions()),
    )


def search_overrides(search: dict[str, object], prefix: str = "search") -> tuple[str, ...]:
    """Settings as `key.sub=value`."""
    found: list[str] = []
    for key, value in search.items():
        name = f"{prefix}.{key}"
        found += search_overrides(value, name) if isinstance(value, dict) else [f"{name}={_written(value)}"]
    return tuple(found)


def _written(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


class Service:
    """A running server without its HTTP."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.models = {model.name: model for model in map(served, config.models)}
        self.keys = None if config.keys is None else ApiKeys.read(Path(config.keys))
        self.files = FileShelf()
        loads = loads_of([model.decoding for model in self.models.values()])
        workers = [WorkerProcess(loads) for _ in range(config.num_workers)]
        self.queue = RequestQueue(workers, config.window_ms / 1000, config.batch_tokens, config.queue)

    def model_for(self, source: str, target: str) -> ServedModel | None:
        """The default model of a pair of languages."""
        return next((each for each in self.models.values() if (each.source, each.target) == (source, target)), None)

    def sources(self) -> dict[str, list[str]]:
        """The source languages, and what each can be translated to."""
        found: dict[str, list[str]] = {}
        for model in self.models.values():
            targets = found.setdefault(model.source, [])
            if model.target not in targets:
                targets.append(model.target)
        return found

    async def translate(
        self,
        request: Request,
        model: ServedModel,
        sources: Sequence[SourceText],
        options: DecodeOptions,
        overrides: tuple[str, ...] = (),
    ) -> list[Translation]:
        """The translations of a request, unless its client leaves or its time is up; raises ApiError."""
        if len(sources) > self.config.limits.pieces:
            limit = self.config.limits.pieces
            raise ApiError(400, f"Invalid request: request ({len(sources)} pieces of text) exceeds limit ({limit})")
        decoding = replace(model.decoding, options=options, overrides=model.decoding.overrides + overrides)
        work = asyncio.create_task(self.queue.translate(decoding, sources))
        gone = asyncio.create_task(_disconnected(request))
        try:
            await asyncio.wait({work, gone}, timeout=self.config.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ApiError(499, "the client has left") if gone.done() else ApiError(504, "this took too long")
            return work.result()
        except QueueFull as error:
            raise ApiError(429, "Slowdown: the server is busy; try again in a second") from error
        except Draining as error:
            raise ApiError(503, "the server is shutting down") from error
        except WorkerDied as error:
            raise ApiError(503, "a worker process died; try again") from error
        except JobFailed as error:
            if error.usage:
                raise ApiError(400, f"Invalid request: {error}") from error
            log.error("request %s failed in its worker: %s", request.scope["request_id"], type(error).__name__)
            raise ApiError(500, "the translation failed") from error
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    """Returns when the client has closed the connection."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
