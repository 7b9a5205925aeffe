"""What the routes of a server share: its models, its queue, and how a request is translated."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fastapi import Request

from qkv.config import load_config
from qkv.core.errors import QkvError
from qkv.models.asked import require_seq2seq
from qkv.models.saved.folder import CONFIG, SavedConfig
from qkv.models.saved.locate import locate_model
from qkv.search.base import searches
from qkv.serving.config import ServeConfig, ServedModelConfig
from qkv.serving.files import FileShelf
from qkv.serving.http.errors import ApiError
from qkv.serving.keys import ApiKeys
from qkv.serving.rates import AddressLimits
from qkv.serving.workers.jobs import BatchWork, Load, ModelSettings, Translate
from qkv.serving.workers.pool import JobFailed, WorkerDied, WorkerProcess
from qkv.serving.workers.queue import Draining, Item, ItemAnswer, QueueFull, RequestQueue, Watch
from qkv.translate.output import Translation
from qkv.translate.settings import translation_config
from qkv.translate.texts import DecodeOptions, SourceText

log = logging.getLogger("qkv.serve")


@dataclass(frozen=True)
class ModelAbout:
    """What a client may want to know about a model."""

    kind: str
    decoder: str
    left_to_right: bool
    searches: list[str]
    """The kinds of search that suit it."""
    search: dict[str, Any]
    """The settings of its default search."""
    attends: bool
    """Whether its outputs can be aligned with their sources."""


@dataclass(frozen=True)
class ServedModel:
    """A model that requests can name."""

    name: str
    source: str
    target: str
    about: ModelAbout
    settings: ModelSettings
    """How it is searched if a request says nothing else."""

    def searched(self, overrides: tuple[str, ...] = ()) -> ModelSettings:
        """The same with other settings of the search."""
        return replace(self.settings, overrides=self.settings.overrides + overrides)


def served(config: ServedModelConfig) -> ServedModel:
    """The model of a config; raises QkvError if it is not there."""
    folder = locate_model(config.path).resolve()
    saved = load_config(SavedConfig, folder / CONFIG)
    model = require_seq2seq(saved.model, config.path)
    source, target = config.languages()
    search = translation_config(search_overrides(config.search), folder).search
    about = ModelAbout(
        model.kind,
        model.decoder.kind,
        model.decoder.autoregressive,
        [kind for kind in searches.names() if searches[kind].parallel != model.decoder.autoregressive],
        search.within(saved.length_limit).model_dump(mode="json", exclude_none=True),
        model.kind == "transformer" and model.decoder.autoregressive,
    )
    return ServedModel(
        config.shown_name,
        source,
        target,
        about,
        ModelSettings(folder, config.engine, search_overrides(config.search)),
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


def _read(config: ServeConfig) -> tuple[dict[str, ServedModel], ApiKeys | None]:
    """The models and the keys of a config; raises QkvError."""
    models = {model.name: model for model in map(served, config.models)}
    return models, None if config.keys is None else ApiKeys.read(Path(config.keys))


def _workers(config: ServeConfig, models: dict[str, ServedModel]) -> list[WorkerProcess]:
    wanted = tuple(dict.fromkeys(model.settings for model in models.values())) if config.preload else ()
    limits = config.loaded_models, config.memory_mb
    return [WorkerProcess(Load(wanted[: config.loaded_models]), *limits) for _ in range(config.num_workers)]


class Service:
    """A running server without its HTTP."""

    def __init__(self, config: ServeConfig, read: Callable[[], ServeConfig] | None = None) -> None:
        self.read = read or (lambda: config)
        """Gives the config as it is now."""
        self.files = FileShelf()
        self.addresses = AddressLimits()
        self._reloading = asyncio.Lock()
        self._take(config, *_read(config))
        self.queue = RequestQueue(
            _workers(config, self.models), config.window_ms / 1000, config.batch_tokens, config.queue
        )

    def _take(self, config: ServeConfig, models: "dict[str, ServedModel]", keys: ApiKeys | None) -> None:
        self.config, self.models, self.keys = config, models, keys

    async def reload(self) -> None:
        """Read config, models and keys again, and serve them with the config's limits.

        The new models are loaded by new workers beside the present ones, so no request waits or is lost. Raises
        QkvError if they cannot be loaded: then nothing changes.
        """
        async with self._reloading:
            config = self.read()
            models, keys = _read(config)
            await self.queue.replace(_workers(config, models))
            self._take(config, models, keys)
            log.warning("models were loaded again: %s", ", ".join(models))

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
        """The translations of a request; raises ApiError."""
        work = Translate(model.searched(overrides), options)
        answers = await self.ask(request, work, [Item(source, len(source.text)) for source in sources])
        return [answer.result for answer in answers]

    async def translate_pages(self, request: Request, model: ServedModel, texts: Sequence[str]) -> list[Translation]:
        """The translations of texts of pages, aligned if the model can tell how; raises ApiError."""
        options = DecodeOptions(token_scores=False, alignment=model.about.attends)
        return await self.translate(request, model, [SourceText(text) for text in texts], options) if texts else []

    async def watch(
        self, request: Request, work: BatchWork, items: Sequence[Item]
    ) -> AsyncIterator[tuple[int, Any] | tuple[None, list[ItemAnswer]]]:
        """What is written so far, with the number of its text, whenever there is more; at last (None, the answers)."""
        news: asyncio.Queue[tuple[int, Any] | None] = asyncio.Queue()
        working = asyncio.create_task(
            self.ask(request, work, items, lambda place, text: news.put_nowait((place, text)))
        )
        working.add_done_callback(lambda task: news.put_nowait(None))
        try:
            while (each := await news.get()) is not None:
                yield each
            yield None, working.result()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def ask(
        self, request: Request, work: BatchWork, items: Sequence[Item], watch: Watch | None = None
    ) -> list[ItemAnswer]:
        """The answers to a request, unless its client leaves or its time is up; raises ApiError."""
        if len(items) > self.config.limits.pieces:
            limit = self.config.limits.pieces
            raise ApiError(400, f"Invalid request: request ({len(items)} pieces of text) exceeds limit ({limit})")
        working = asyncio.create_task(self.queue.ask(work, items, watch))
        gone = asyncio.create_task(_disconnected(request))
        try:
            seconds = self.config.limits.seconds
            await asyncio.wait({working, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ApiError(499, "the client has left") if gone.done() else ApiError(504, "this took too long")
            return working.result()
        except QkvError as error:
            raise _refusal(error, request) from error
        finally:
            for task in (working, gone):
                task.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)


def _refusal(error: QkvError, request: Request) -> ApiError:
    """The HTTP error that a client gets for an error of the server."""
    if isinstance(error, QueueFull):
        return ApiError(429, "Slowdown: the server is busy; try again in a second")
    if isinstance(error, Draining):
        return ApiError(503, "the server is shutting down")
    if isinstance(error, WorkerDied):
        return ApiError(503, "a worker process died; try again")
    if isinstance(error, JobFailed) and error.usage:
        return ApiError(400, f"Invalid request: {error}")
    log.error("request %s failed in its worker: %s", request.scope["request_id"], type(error).__name__)
    return ApiError(500, "the translation failed")


async def _disconnected(request: Request) -> None:
    """Returns when the client has closed the connection."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
