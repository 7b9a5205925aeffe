"""Files of LibreTranslate's interface: /translate_file, and where the result is fetched."""

import asyncio
import re
from pathlib import PurePath

from fastapi import APIRouter, Request
from fastapi.responses import Response

from qkv.core.errors import UsageError
from qkv.serving.files import FORMATS, readable_formats
from qkv.serving.http.bodies import form_of
from qkv.serving.http.errors import ApiError
from qkv.serving.http.libre_schemas import TranslatedFile
from qkv.serving.http.libretranslate import model_between
from qkv.serving.http.openapi import Responses, answered
from qkv.serving.http.shared import require_key, service_of

router = APIRouter(tags=["LibreTranslate"])
SAFE = re.compile(r"[^A-Za-z0-9._-]+")


FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "source", "target"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "source": {"type": "string"},
                        "target": {"type": "string"},
                        "api_key": {"type": "string"},
                    },
                }
            }
        },
    }
}
FILE: Responses = {
    200: {"description": "The file.", "content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}


@router.post("/translate_file", openapi_extra=FORM, responses=answered(TranslatedFile))
async def translate_file(request: Request) -> dict[str, str]:
    """Translate a text file, subtitles, a page or a Word document; the answer says where to fetch the result."""
    service = service_of(request)
    fields, upload = await form_of(request)
    require_key(service, request, fields)
    if upload is None:
        raise ApiError(400, "Invalid request: missing file parameter")
    for name in ("source", "target"):
        if not fields.get(name):
            raise ApiError(400, f"Invalid request: missing {name} parameter")
    model = model_between(service, fields["source"], fields["target"])
    file = PurePath(upload.filename or "")
    read = FORMATS.get(file.suffix.lower())
    if read is None:
        raise ApiError(400, f"Invalid request: file format not supported; give one of {', '.join(readable_formats())}")
    try:
        # A large document takes a while, and other requests do not wait for it.
        pieces = await asyncio.to_thread(read, await upload.read(), model.about.attends)
    except UnicodeDecodeError as error:
        raise ApiError(400, "Invalid request: the file is not valid UTF-8") from error
    except UsageError as error:
        raise ApiError(400, f"Invalid request: {error}") from error
    limit = service.config.limits.text_characters
    if any(len(text) > limit for text in pieces.texts):
        raise ApiError(400, f"Invalid request: a line of the file exceeds text limit ({limit})")
    outputs = await service.translate_pages(request, model, pieces.texts)
    content = await asyncio.to_thread(pieces.filled, outputs)
    name = f"{SAFE.sub('_', file.stem)[:80] or 'file'}_{model.target}{file.suffix.lower()}"
    return {"translatedFileUrl": f"{request.base_url}download_file/{service.files.put(name, content)}"}


@router.get("/download_file/{token}", responses=answered(None) | FILE, response_class=Response)
async def download_file(request: Request, token: str) -> Response:
    """A translated file, to be saved and not shown."""
    found = service_of(request).files.get(token)
    if found is None:
        raise ApiError(404, "there is no such file, or it has expired")
    headers = {"Content-Disposition": f'attachment; filename="{found.name}"'}
    return Response(found.content, media_type="application/octet-stream", headers=headers)
