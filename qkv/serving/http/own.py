"""What only this server has: /v1/translate with everything that a search can tell, and /v1/models."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from qkv.core.wording import first_problem
from qkv.serving.http.bodies import fields_of
from qkv.serving.http.errors import ApiError
from qkv.serving.http.shared import require_key, service_of
from qkv.serving.service import ServedModel, Service, search_overrides
from qkv.translate.texts import DecodeOptions, SourceText

router = APIRouter(prefix="/v1", tags=["qkv"])
Words = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=32)]
BEAMS = ("size", "beam", "length_beam", "samples", "candidates")
"""Settings of searches that multiply the work."""


class TranslateRequest(BaseModel):
    """The body of /v1/translate."""

    model_config = ConfigDict(extra="forbid", strict=True)

    texts: list[str]
    """The texts to translate."""
    model: str | None = None
    """Name of a model; default: the first one."""
    nbest: int = Field(default=1, ge=1, le=100)
    """How many outputs of each text."""
    alignment: bool = False
    """Return how much each output token attended to each source token."""
    prefixes: list[str] | None = None
    """The output of each text begins with this."""
    required: Annotated[list[Words], Field(max_length=1024)] | None = None
    """The output of each text contains these."""
    forbidden: Words = []
    """No output contains one of these."""
    search: dict[str, Any] = {}
    """Settings of the search, such as {"kind": "beam", "size": 8}."""
    api_key: str | None = None


@router.get("/models")
async def models(request: Request) -> list[dict[str, str]]:
    """The models of this server."""
    served = service_of(request).models.values()
    return [{"name": model.name, "source": model.source, "target": model.target} for model in served]


@router.post(
    "/translate",
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": TranslateRequest.model_json_schema()}}}},
)
async def translate_in_detail(request: Request) -> dict[str, Any]:
    """Translate texts, with scores, tokens, n-best lists, alignments and constraints."""
    service, fields = service_of(request), await fields_of(request)
    require_key(service, request, fields)
    try:
        wanted = TranslateRequest.model_validate(fields)
    except ValidationError as error:
        raise ApiError(400, f"Invalid request: {first_problem(error)}") from error
    model = _model(service, wanted)
    _require_limits(service, wanted)
    options = DecodeOptions(
        nbest=wanted.nbest,
        alignment=wanted.alignment,
        forbidden=tuple(wanted.forbidden),
        prefixes=wanted.prefixes is not None,
        required=wanted.required is not None,
    )
    prefixes = wanted.prefixes or [""] * len(wanted.texts)
    required = wanted.required or [[] for _ in wanted.texts]
    sources = [
        SourceText(text, prefix, tuple(words))
        for text, prefix, words in zip(wanted.texts, prefixes, required, strict=True)
    ]
    found = await service.translate(request, model, sources, options, search_overrides(wanted.search))
    return {"model": model.name, "translations": [each.as_dict() for each in found]}


def _model(service: Service, wanted: TranslateRequest) -> ServedModel:
    name = wanted.model or next(iter(service.models))
    if name not in service.models:
        raise ApiError(404, f"no model is called {name[:64]}; GET /v1/models lists them")
    return service.models[name]


def _require_limits(service: Service, wanted: TranslateRequest) -> None:
    limits = service.config.limits
    if not 1 <= len(wanted.texts) <= limits.texts:
        raise ApiError(400, f"Invalid request: texts must be 1 to {limits.texts} texts")
    if any(len(text) > limits.text_characters for text in wanted.texts):
        raise ApiError(400, f"Invalid request: a text has more than {limits.text_characters} characters")
    for name, given in (("prefixes", wanted.prefixes), ("required", wanted.required)):
        if given is not None and len(given) != len(wanted.texts):
            raise ApiError(400, f"Invalid request: {name} must have one entry for each text")
    for key in BEAMS:
        size = wanted.search.get(key, 1)
        if not isinstance(size, int) or size > limits.beam:
            raise ApiError(400, f"Invalid request: search.{key} must be <= {limits.beam}")
    longest = wanted.search.get("max_length", 1)
    if not isinstance(longest, int) or longest > limits.text_characters:
        raise ApiError(400, f"Invalid request: search.max_length must be <= {limits.text_characters}")
    words = [*(wanted.prefixes or []), *wanted.forbidden, *(word for each in wanted.required or [] for word in each)]
    if sum(map(len, words)) > limits.text_characters:
        raise ApiError(400, f"Invalid request: prefixes and words have more than {limits.text_characters} characters")
    if any(key not in ALLOWED for key in wanted.search):
        key = next(key for key in wanted.search if key not in ALLOWED)
        raise ApiError(400, f"Invalid request: search.{key[:64]} cannot be set by a request")


ALLOWED = {*BEAMS, "kind", "length_penalty", "length_factor", "temperature", "top_k", "top_p", "seed", "max_length"}
"""Settings that a request may choose: none that names a file, and none without an upper bound."""
