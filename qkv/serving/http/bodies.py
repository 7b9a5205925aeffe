"""The fields of a request: JSON or a form, and the query string."""

import json
from typing import Any, NoReturn

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException

from qkv.serving.http.errors import ApiError

MOST_DIGITS = 400
"""Digits of a number in JSON."""


async def fields_of(request: Request) -> dict[str, Any]:
    """The fields of a request; raises ApiError. Files are left out."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    found: dict[str, Any] = dict(request.query_params)
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        return found | (await form_of(request))[0]
    body = await request.body()
    return found | json_object(body) if body else found


async def form_of(request: Request) -> tuple[dict[str, str], UploadFile | None]:
    """The texts of a form, and its file if there is one; raises ApiError."""
    try:
        form = await request.form(max_files=1, max_fields=100)
        texts = {name: value for name, value in form.items() if isinstance(value, str)}
        for text in texts.values():
            text.encode()  # a client may choose an encoding that has halves of characters
    except (MultiPartException, LookupError, ValueError) as error:
        raise ApiError(400, "Invalid request: the form cannot be read") from error
    upload = form.get("file")
    # Browsers send CR LF for the end of a line.
    lines = {name: value.replace("\r\n", "\n") for name, value in texts.items()}
    return lines, upload if isinstance(upload, UploadFile) else None


def json_object(body: bytes) -> dict[str, Any]:
    """The object in a body; raises ApiError for anything else, for NaN, and for text that is not valid Unicode."""
    try:
        found = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse, parse_int=_number, parse_float=_real)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "Invalid JSON format") from error
    if not isinstance(found, dict):
        raise ApiError(400, "Invalid JSON format")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("the number is too long")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits) if len(digits) <= MOST_DIGITS else float("inf")
    if abs(value) == float("inf"):
        raise ValueError("the number is too large")
    return value
