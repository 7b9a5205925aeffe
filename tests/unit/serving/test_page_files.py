"""The files of the page are sent once: they are named by their digests, and what a browser has is not sent again."""

import asyncio
import re
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from qkv.serving.http import page
from qkv.serving.http.errors import ApiError, error_response

YEAR = "public, max-age=31536000, immutable"


def asked(url: str, **headers: str) -> httpx2.Response:
    app = FastAPI()
    app.include_router(page.router)
    app.add_exception_handler(ApiError, lambda request, error: error_response(404, str(error)))

    async def ask() -> httpx2.Response:
        transport: Any = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:5000") as client:
            return await client.get(url, headers=headers)

    return asyncio.run(ask())


def named() -> list[str]:
    """The addresses in the index."""
    return re.findall(r'(?:src|href)="([^"]+)"', asked("/").text)


def test_the_index_names_files_that_may_be_kept_for_ever() -> None:
    assert [re.sub(r"\?v=[0-9a-f]{16}$", "", each) for each in named()] == [
        "page/icon.svg",
        "page/live.css",
        "page/live.js",
    ]
    for address in named():
        answer = asked(f"/{address}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == YEAR
        name = address.split("/")[1].split("?")[0]
        assert answer.content == (page.FOLDER / name).read_bytes()


@pytest.mark.parametrize("address", ["/", "/page/live.js", "/page/live.js?v=0123456789abcdef", "/page/example.json"])
def test_an_address_that_may_change_is_checked(address: str) -> None:
    first = asked(address)
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = asked(address, **{"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    for other in ('"other"', tag.strip('"'), ""):
        assert asked(address, **{"If-None-Match": other}).content == first.content


def test_files_that_differ_have_tags_that_differ() -> None:
    tags = [asked(f"/{address}").headers["etag"] for address in ("", *named(), "page/example.json")]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize("name", ["index.html", "nothing.js", "live.js.map", "%2e%2e%2fhttp%2fpage.py"])
def test_nothing_else_is_there(name: str) -> None:
    assert asked(f"/page/{name}").status_code == 404
