"""What only this server has: everything that a search can tell, scores, vectors, and the inside of a model."""

import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ValidationError

from qkv.core.errors import QkvError
from qkv.core.wording import first_problem
from qkv.serving.files import readable_formats
from qkv.serving.http.bodies import fields_of
from qkv.serving.http.errors import ApiError
from qkv.serving.http.events import event, first_of
from qkv.serving.http.openapi import VERSION, Responses, answered, linked, takes
from qkv.serving.http.schemas import (
    Asked,
    EmbedRequest,
    EmbedResponse,
    LimitsInfo,
    ModelInfo,
    ScoreRequest,
    ScoreResponse,
    SearchSettings,
    SeeRequest,
    SeeResponse,
    ServerInfo,
    TranslateRequest,
    TranslateResponse,
)
from qkv.serving.http.shared import require_key, service_of
from qkv.serving.languages import language_name
from qkv.serving.service import ServedModel, Service, search_overrides
from qkv.serving.workers.jobs import Embed, Score, See, Translate
from qkv.serving.workers.queue import Item
from qkv.translate.texts import DecodeOptions, SourceText, Unfinished

router = APIRouter(prefix="/v1", tags=["qkv"])
BEAMS = ("size", "beam", "length_beam", "samples")
"""Settings of searches that multiply the work."""
T = TypeVar("T", bound=Asked)
ADMIN = "admin"
"""The name of the key that may reload models."""
log = logging.getLogger("qkv.serve")


FIRST = "$response.body#/0/name"
"""In links of the description: the name of the first model that an answer lists."""


@router.get(
    "/models",
    responses=linked(
        answered(list[ModelInfo]),
        {
            "/v1/translate": {"texts": ["a"], "model": FIRST, "likely": 2},
            "/v1/score": {"pairs": [["a", "b"]], "model": FIRST},
            "/v1/embeddings": {"texts": ["a"], "model": FIRST},
            "/v1/see": {"text": "a", "model": FIRST},
        },
    ),
)
async def models(request: Request) -> list[dict[str, Any]]:
    """The models of this server."""
    return [_about(model) for model in service_of(request).models.values()]


@router.get("/server", responses=answered(ServerInfo))
async def server(request: Request) -> dict[str, Any]:
    """The version, the limits and the models of this server."""
    service = service_of(request)
    limits = service.config.limits.model_dump(include=set(LimitsInfo.model_fields))
    return {
        "version": VERSION,
        "ready": service.queue.ready,
        "key_required": service.keys is not None,
        "limits": limits,
        "file_formats": readable_formats(),
        "models": [_about(model) for model in service.models.values()],
    }


def _about(model: ServedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "source": model.source,
        "source_name": language_name(model.source),
        "target": model.target,
        "target_name": language_name(model.target),
        "kind": model.about.kind,
        "decoder": model.about.decoder,
        "left_to_right": model.about.left_to_right,
        "attends": model.about.attends,
        "searches": model.about.searches,
        "search": model.about.search,
    }


@router.post("/translate", openapi_extra=takes(TranslateRequest), responses=answered(TranslateResponse))
async def translate_in_detail(request: Request) -> dict[str, Any]:
    """Translate texts, with scores, tokens, n-best lists, alignments and constraints."""
    began = time.perf_counter()
    service, wanted, model = await _request(request, TranslateRequest)
    _require_limits(service, wanted)
    work = Translate(model.searched(_overrides(wanted.search)), _options(wanted))
    answers = await service.ask(request, work, _items(wanted))
    return {
        "model": model.name,
        "engine": answers[0].engine,
        "seconds": time.perf_counter() - began,
        "translations": [each.result.as_dict() for each in answers],
    }


EVENTS: Responses = {
    200: {
        "description": "Server-sent events: `partial` (index, part, text, tokens) whenever an output has become "
        "longer, then `result` with a TranslateResponse, or `error`.",
        "content": {"text/event-stream": {"schema": {"type": "object", "properties": {"data": {"type": "string"}}}}},
    }
}


UNBUFFERED = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""What keeps a proxy such as nginx from holding events back."""


@router.post(
    "/stream",
    openapi_extra=takes(TranslateRequest),
    responses=answered(TranslateResponse) | EVENTS,
    response_class=StreamingResponse,
)
async def stream(request: Request) -> Response:
    """The same as /v1/translate, while it is being written."""
    began = time.perf_counter()
    service, wanted, model = await _request(request, TranslateRequest)
    _require_limits(service, wanted)
    work = Translate(model.searched(_overrides(wanted.search)), replace(_options(wanted), watched=True))

    async def events() -> AsyncIterator[bytes]:
        async for place, news in service.watch(request, work, _items(wanted)):
            if isinstance(news, Unfinished):
                yield event("partial", {"index": place, "part": news.part, "text": news.text, "tokens": news.tokens})
            else:
                yield event(
                    "result",
                    {
                        "model": model.name,
                        "engine": news[0].engine,
                        "seconds": time.perf_counter() - began,
                        "translations": [each.result.as_dict() for each in news],
                    },
                )

    return StreamingResponse(await first_of(events()), media_type="text/event-stream", headers=UNBUFFERED)


@router.post("/score", openapi_extra=takes(ScoreRequest), responses=answered(ScoreResponse))
async def score_targets(request: Request) -> dict[str, Any]:
    """log p(target | source) of pairs, token by token."""
    began = time.perf_counter()
    service, wanted, model = await _request(request, ScoreRequest)
    texts = [text for pair in wanted.pairs for text in pair]
    _require_texts(service, "pairs", wanted.pairs, texts)
    pairs = [(source, target) for source, target in wanted.pairs]
    answers = await service.ask(request, Score(model.settings), [Item(pairs, sum(map(len, texts)))])
    scores = [each.as_dict() for each in answers[0].result]
    return {"model": model.name, "seconds": time.perf_counter() - began, "scores": scores}


@router.post("/embeddings", openapi_extra=takes(EmbedRequest), responses=answered(EmbedResponse))
async def embeddings(request: Request) -> dict[str, Any]:
    """Vectors of texts: the states of the model's encoder."""
    began = time.perf_counter()
    service, wanted, model = await _request(request, EmbedRequest)
    _require_texts(service, "texts", wanted.texts, wanted.texts)
    _require_few_vectors(service, wanted)
    work = Embed(model.settings, wanted.pooling, wanted.normalize)
    answers = await service.ask(request, work, [Item(wanted.texts, sum(map(len, wanted.texts)))])
    found = answers[0].result
    answer: dict[str, Any] = {"model": model.name, "seconds": time.perf_counter() - began}
    if wanted.pooling == "tokens":
        return answer | {"tokens": [each.tokens for each in found], "token_vectors": [each.vectors for each in found]}
    return answer | {"vectors": [each.vectors[0] for each in found]}


def _require_few_vectors(service: Service, wanted: EmbedRequest) -> None:
    """A vector for each token makes a large answer: all texts together may be as long as one."""
    limit = service.config.limits.text_characters
    if wanted.pooling == "tokens" and sum(map(len, wanted.texts)) > limit:
        raise ApiError(400, f"Invalid request: with pooling tokens, texts have at most {limit} characters together")


@router.post("/see", openapi_extra=takes(SeeRequest), responses=answered(SeeResponse))
async def see_inside(request: Request) -> Response:
    """How a text is computed: what the page of `qkv see` holds."""
    service, wanted, model = await _request(request, SeeRequest)
    limit = service.config.limits.see_characters
    if not wanted.text or len(wanted.text) > limit:
        raise ApiError(400, f"Invalid request: text must have 1 to {limit} characters")
    _require_search(service, wanted.search)
    asked = [model] if wanted.compare is None else [model, _model(service, wanted.compare)]
    records: list[bytes] = []
    for each in asked:
        work = See(each.searched(_overrides(wanted.search)), each.name)
        (answer,) = await service.ask(request, work, [Item(wanted.text, len(wanted.text))])
        records.append(answer.result)
    return Response(b'{"format":1,"records":[' + b",".join(records) + b"]}", media_type="application/json")


@router.post("/reload", responses=answered(list[ModelInfo]))
async def reload(request: Request) -> list[dict[str, Any]]:
    """Read the config, the models and the keys again; the client's key must be called admin."""
    service, fields = service_of(request), await fields_of(request)
    if require_key(service, request, fields) != ADMIN:
        raise ApiError(403, f"only the key called {ADMIN} may do this")
    try:
        await service.reload()
    except QkvError as error:
        # The reason may name files of this machine.
        log.error("request %s: the models stay as they are: %s", request.scope["request_id"], error)
        raise ApiError(500, "the models could not be loaded; they stay as they are") from error
    return [_about(model) for model in service.models.values()]


async def _request(request: Request, kind: type[T]) -> tuple[Service, T, ServedModel]:
    """The fields of a request and the model that it names; raises ApiError."""
    service, fields = service_of(request), await fields_of(request)
    require_key(service, request, fields)
    wanted = _validated(kind, fields)
    return service, wanted, _model(service, wanted.model)


M = TypeVar("M", bound=BaseModel)


def _validated(kind: type[M], fields: dict[str, Any]) -> M:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise ApiError(400, f"Invalid request: {first_problem(error)}") from error


def _model(service: Service, name: str | None) -> ServedModel:
    name = next(iter(service.models)) if name is None else name
    if name not in service.models:
        raise ApiError(404, f"no model is called {name[:64]}; GET /v1/models lists them")
    return service.models[name]


def _overrides(search: SearchSettings) -> tuple[str, ...]:
    given = search.model_dump(exclude_none=True)
    drafter = given.pop("drafter", None)
    return search_overrides(given if drafter is None else given | {"drafter": {"kind": drafter}})


def _options(wanted: TranslateRequest) -> DecodeOptions:
    return DecodeOptions(
        nbest=wanted.nbest,
        alignment=wanted.alignment,
        forbidden=tuple(wanted.forbidden),
        prefixes=wanted.prefixes is not None or wanted.prefix_tokens is not None,
        required=wanted.required is not None,
        likely=wanted.likely,
    )


def _items(wanted: TranslateRequest) -> list[Item]:
    count = len(wanted.texts)
    prefixes = wanted.prefixes or [""] * count
    tokens = wanted.prefix_tokens or [[]] * count
    required = wanted.required or [[]] * count
    return [
        Item(SourceText(text, prefix, tuple(words), tuple(own)), len(text))
        for text, prefix, own, words in zip(wanted.texts, prefixes, tokens, required, strict=True)
    ]


def _require_texts(service: Service, name: str, given: list[Any], texts: list[str]) -> None:
    limits = service.config.limits
    if not 1 <= len(given) <= limits.texts:
        raise ApiError(400, f"Invalid request: {name} must be 1 to {limits.texts} {name}")
    if any(len(text) > limits.text_characters for text in texts):
        raise ApiError(400, f"Invalid request: a text has more than {limits.text_characters} characters")


def _require_search(service: Service, search: SearchSettings) -> None:
    limits = service.config.limits
    most = dict.fromkeys(BEAMS, limits.beam) | {"passes": limits.passes, "max_length": limits.text_characters}
    for key, limit in most.items():
        size = getattr(search, key)
        if size is not None and size > limit:
            raise ApiError(400, f"Invalid request: search.{key} must be <= {limit}")


def _require_limits(service: Service, wanted: TranslateRequest) -> None:
    limits = service.config.limits
    _require_texts(service, "texts", wanted.texts, wanted.texts)
    _require_search(service, wanted.search)
    for name in ("prefixes", "prefix_tokens", "required"):
        given = getattr(wanted, name)
        if given is not None and len(given) != len(wanted.texts):
            raise ApiError(400, f"Invalid request: {name} must have one entry for each text")
    if wanted.prefixes is not None and wanted.prefix_tokens is not None:
        raise ApiError(400, "Invalid request: give prefixes or prefix_tokens, not both")
    listed = [*(wanted.prefix_tokens or []), *(wanted.required or [])]
    words = [*(wanted.prefixes or []), *wanted.forbidden, *(word for each in listed for word in each)]
    if sum(map(len, words)) > limits.text_characters:
        raise ApiError(400, f"Invalid request: prefixes and words have more than {limits.text_characters} characters")
