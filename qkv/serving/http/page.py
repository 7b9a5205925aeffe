"""The page at /, which is built from web/ and comes with the package."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

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
FRESH = {"Cache-Control": "no-cache"}
"""A browser asks whether its copy is still the right one."""


@router.get("/")
async def index() -> FileResponse:
    """The page."""
    return _file(INDEX)


@router.get("/page/{name}")
async def part(name: str) -> FileResponse:
    """What the page consists of."""
    if name not in _names():
        raise ApiError(404, "Not Found")
    return _file(name)


def _names() -> set[str]:
    return {path.name for path in FOLDER.iterdir() if path.suffix in TYPES} - {INDEX}


def _file(name: str) -> FileResponse:
    return FileResponse(FOLDER / name, media_type=TYPES[Path(name).suffix], headers=FRESH)
