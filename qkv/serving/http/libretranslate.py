"""The interface of LibreTranslate, so that its clients work: /translate, /detect, /languages, /frontend/settings."""

from typing import Any

from fastapi import APIRouter, Request

from qkv.search.beam import BeamConfig
from qkv.serving.detect import detect_in_thread
from qkv.serving.files import readable_formats
from qkv.serving.html.markup import Markup
from qkv.serving.http.bodies import fields_of
from qkv.serving.http.errors import ApiError
from qkv.serving.http.libre_schemas import (
    DetectedLanguage,
    DetectRequest,
    LanguageInfo,
    LibreTranslateRequest,
    LibreTranslateResponse,
)
from qkv.serving.http.openapi import answered, linked, takes
from qkv.serving.http.shared import require_key, service_of
from qkv.serving.languages import full_code, language_name
from qkv.serving.service import ServedModel, Service
from qkv.translate.output import Translation
from qkv.translate.texts import DecodeOptions, SourceText

router = APIRouter(tags=["LibreTranslate"])
AUTO = "auto"
FORMATS = ("text", "html")


@router.post("/translate", openapi_extra=takes(LibreTranslateRequest), responses=answered(LibreTranslateResponse))
async def translate(request: Request) -> dict[str, Any]:
    """Translate one text, or each of several."""
    service, fields = service_of(request), await fields_of(request)
    require_key(service, request, fields)
    for name in ("q", "source", "target"):
        if fields.get(name) in (None, "", []):
            raise ApiError(400, f"Invalid request: missing {name} parameter")
    count = _alternatives(service, fields.get("alternatives", 0))
    texts, one = _texts(service, fields["q"])
    detected = None
    source = _code(fields["source"], "source")
    if source == AUTO:
        detected = (await detect_in_thread(" ".join(texts), tuple(service.sources())))._asdict()
        source = detected["language"]
    model = model_between(service, source, _code(fields["target"], "target"))
    kind = fields.get("format") or "text"
    if kind not in FORMATS:
        raise ApiError(400, f"{kind} format is not supported")
    answer: dict[str, Any]
    if kind == "html":
        answer = {"translatedText": await _translate_markup(request, service, model, texts)}
        if count:
            answer["alternatives"] = [[] for _ in texts]
    else:
        options = DecodeOptions(nbest=count + 1, token_scores=False)
        sources, wider = [SourceText(text) for text in texts], _wider_beam(count)
        found = await service.translate(request, model, sources, options, wider)
        answer = {"translatedText": [each.text for each in found]}
        if count:
            answer["alternatives"] = [_others(each) for each in found]
    if detected is not None:
        answer["detectedLanguage"] = [detected] * len(texts)
    return {name: values[0] for name, values in answer.items()} if one else answer


@router.post("/detect", openapi_extra=takes(DetectRequest), responses=answered(list[DetectedLanguage]))
async def detect(request: Request) -> list[dict[str, Any]]:
    """The language of a text, the most probable first."""
    service, fields = service_of(request), await fields_of(request)
    require_key(service, request, fields)
    if fields.get("q") in (None, "", []):
        raise ApiError(400, "Invalid request: missing q parameter")
    texts, _ = _texts(service, fields["q"])
    return [(await detect_in_thread(" ".join(texts)))._asdict()]


KNOWN = {"q": "a", "source": "$response.body#/0/code", "target": "$response.body#/0/targets/0"}
"""In links of the description: a request for the first language that an answer lists."""


@router.get("/languages", responses=linked(answered(list[LanguageInfo]), {"/translate": KNOWN}))
async def languages(request: Request) -> list[dict[str, Any]]:
    """The languages that can be translated, and to which; then those that can only be translated to.

    Clients such as Weblate take a language for unknown, as a target too, if no entry has its code.
    """
    sources = service_of(request).sources()
    only_targets: dict[str, list[str]] = {
        code: [] for targets in sources.values() for code in targets if code not in sources
    }
    return [
        {"code": code, "name": language_name(code), "targets": targets}
        for code, targets in (sources | only_targets).items()
    ]


@router.get("/frontend/settings", responses=answered(dict[str, Any]))
async def settings(request: Request) -> dict[str, Any]:
    """What a page needs to know about this server."""
    service = service_of(request)
    first = next(iter(service.models.values()))
    sides = {"source": first.source, "target": first.target}
    return {
        "charLimit": service.config.limits.text_characters,
        "frontendTimeout": 500,
        "apiKeys": service.keys is not None,
        "keyRequired": service.keys is not None,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": readable_formats(),
        "language": {side: {"code": code, "name": language_name(code)} for side, code in sides.items()},
    }


@router.post("/suggest", responses=answered(dict[str, Any]))
async def suggest(request: Request) -> None:
    """Suggestions are not taken."""
    raise ApiError(403, "Suggestions are disabled on this server.")


async def _translate_markup(request: Request, service: Service, model: ServedModel, texts: list[str]) -> list[str]:
    """HTML with its tags."""
    pages = [Markup(text, whole=model.about.attends) for text in texts]
    found = iter(await service.translate_pages(request, model, [text for page in pages for text in page.texts]))
    return [page.filled([next(found) for _ in page.texts]) for page in pages]


def _wider_beam(alternatives: int) -> tuple[str, ...]:
    """What a search must be to have so many alternatives."""
    if not alternatives:
        return ()
    return "search.kind=beam", f"search.size={max(BeamConfig().size, alternatives + 1)}"


def _others(found: Translation) -> list[str]:
    """Alternatives that differ from the best output and from each other."""
    texts = dict.fromkeys(other.text for other in found.alternatives if other.text and other.text != found.text)
    return list(texts)


def _alternatives(service: Service, given: Any) -> int:
    most = service.config.limits.alternatives
    try:
        count = int(given) if isinstance(given, int | str) else None
    except ValueError:
        count = None
    if count is None:
        raise ApiError(400, "Invalid request: alternatives parameter is not a number")
    if count > most:
        raise ApiError(400, f"Invalid request: alternatives parameter must be <= {most}")
    return max(count, 0)


def _texts(service: Service, given: Any) -> tuple[list[str], bool]:
    """The texts of a request, and whether it is a single one."""
    texts = given if isinstance(given, list) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise ApiError(400, "Invalid request: q parameter must be a text or a list of texts")
    limits = service.config.limits
    if len(texts) > limits.texts:
        raise ApiError(400, f"Invalid request: request ({len(texts)}) exceeds text limit ({limits.texts})")
    for text in texts:
        if len(text) > limits.text_characters:
            raise ApiError(400, f"Invalid request: request ({len(text)}) exceeds text limit ({limits.text_characters})")
    return texts, not isinstance(given, list)


def _code(given: Any, name: str) -> str:
    if not isinstance(given, str):
        raise ApiError(400, f"Invalid request: {name} parameter must be a language code")
    return full_code(given)


def model_between(service: Service, source: str, target: str) -> ServedModel:
    """The model from one language to another; raises ApiError."""
    source, target = full_code(source), full_code(target)
    sources = service.sources()
    targets = {code for codes in sources.values() for code in codes}
    for code, known in ((source, sources.keys()), (target, targets)):
        if code not in known:
            raise ApiError(400, f"{code} is not supported")
    model = service.model_for(source, target)
    if model is None:
        wanted, given = (f"{language_name(code)} ({code})" for code in (target, source))
        raise ApiError(400, f"{wanted} is not available as a target language from {given}")
    return model
