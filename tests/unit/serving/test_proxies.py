"""Whose word counts for where a request comes from."""

import asyncio

import httpx2
import pytest

from qkv.serving.app import create_app
from qkv.serving.config import LimitsConfig, ServeConfig, ServedModelConfig
from qkv.serving.server import uvicorn_config
from qkv.serving.service import Service
from tests.support.server import MODEL

SERVED = ServedModelConfig(path=MODEL, source="aa", target="bb")


def statuses(proxies: list[str], asked_from: list[tuple[str, str]]) -> list[int]:
    """Of requests that come from an address and say another one, each of which may ask once a minute.

    400 is that of a request without a text, which does not get as far as a worker.
    """
    config = ServeConfig(models=[SERVED], trusted_proxies=proxies, limits=LimitsConfig(per_minute=1))

    async def ask() -> list[int]:
        ran = uvicorn_config(create_app(Service(config)), config)
        ran.load()
        found = []
        for address, said in asked_from:
            transport = httpx2.ASGITransport(app=ran.loaded_app, client=(address, 1234))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                answer = await http.post("/translate", json={}, headers={"x-forwarded-for": said})
            found.append(answer.status_code)
        return found

    return asyncio.run(ask())


def test_nobody_is_believed_by_default() -> None:
    assert statuses([], [("127.0.0.1", f"203.0.113.{n}") for n in range(3)]) == [400, 429, 429]


def test_a_trusted_proxy_says_who_asks() -> None:
    proxies = ["127.0.0.1", "10.0.0.0/8"]
    asked = [
        ("127.0.0.1", "203.0.113.1"),
        ("10.1.2.3", "203.0.113.1"),
        ("127.0.0.1", "203.0.113.2"),
        # The last address that is not a proxy's is the client's; what stands before it, the client may have written.
        ("127.0.0.1", "198.51.100.7, 203.0.113.1, 10.9.9.9"),
        ("203.0.113.5", "203.0.113.3"),
        ("203.0.113.5", "203.0.113.4"),
    ]
    assert statuses(proxies, asked) == [400, 429, 400, 429, 400, 429]


@pytest.mark.parametrize("proxy", ["*", "localhost", "10.0.0.1/8", ""])
def test_what_is_no_address_is_refused(proxy: str) -> None:
    with pytest.raises(ValueError, match="is not an address such as"):
        ServeConfig(models=[SERVED], trusted_proxies=[proxy])
