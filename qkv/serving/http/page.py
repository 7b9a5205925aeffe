"""The page at /, which is built from web/ and comes with the package."""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from qkv.serving.http.errors import ApiError

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parents[1] / "page"
INDEX = "index.html"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
CHECKED = "no-cache"
"""A browser asks each time whether its copy is still the right one."""
KEPT = "public, max-age=31536000, immutable"
"""What stands at this address never changes."""


class Part(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str
    digest: str


@router.get("/")
async def index(request: Request) -> Response:
    """The page."""
    return _answer(request, _parts()[INDEX], CHECKED)


@router.get("/page/{name}")
async def part(request: Request, name: str, v: str = "") -> Response:
    """What the page consists of; an address with the digest of the file may be kept for ever."""
    found = _parts().get(name)
    if found is None or name == INDEX:
        raise ApiError(404, "Not Found")
    return _answer(request, found, KEPT if v == found.digest else CHECKED)


@cache
def _parts() -> dict[str, Part]:
    """All files of the page, read once; the index names the others by their digests."""
    found = {path.name: _part(path.read_bytes(), path.suffix) for path in FOLDER.iterdir() if path.suffix in TYPES}
    named = re.sub(
        r'="page/([\w.]+)"',
        lambda match: f'="page/{match[1]}?v={found[match[1]].digest}"',
        found[INDEX].content.decode(),
    )
    return {**found, INDEX: _part(named.encode(), ".html")}


def _part(content: bytes, suffix: str) -> Part:
    return Part(content, TYPES[suffix], hashlib.sha256(content).hexdigest()[:16])


def _answer(request: Request, part: Part, caching: str) -> Response:
    headers = {"ETag": f'"{part.digest}"', "Cache-Control": caching}
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if "*" in known or headers["ETag"] in known:
        return Response(status_code=304, headers=headers)
    return Response(part.content, media_type=part.media_type, headers=headers)
