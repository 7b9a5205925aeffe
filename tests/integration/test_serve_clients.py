"""Clients that exist: LibreTranslate's own, random ones made from the description, and ours."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from libretranslatepy import LibreTranslateAPI

from qkv import Translator
from qkv.client import AsyncClient, Client, ServerError
from qkv.translate.ask.vectors import TextVectors
from tests.support.loops import in_a_loop_of_its_own
from tests.support.server import MODEL, SERVE, WORDS, serving

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving("workers=1") as found:
        yield found


def test_libretranslates_own_client(address: str) -> None:
    client = LibreTranslateAPI(address)
    assert client.translate("kalo minesu ta", "aa", "bb") == "TA MINESU KALO"
    assert client.languages() == [
        {"code": "aa", "name": "aa", "targets": ["bb"]},
        {"code": "bb", "name": "bb", "targets": []},
    ]
    assert client.detect("Where is the library?")[0]["language"] == "en"


def test_random_requests_are_answered_as_described() -> None:
    """Few cases; `benchmarks/serve_fuzz.py` makes thousands."""
    command = [sys.executable, str(ROOT / "benchmarks" / "serve_fuzz.py"), f"{MODEL}=aa-bb", "workers=1"]
    more = ["models.0.engine=torch", "--examples", "4", "--phases", "fuzzing,stateful"]
    run = subprocess.run([*command, *more], capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert json.loads(run.stdout.splitlines()[-1])["cases"] > 50
    assert "Stateful (not" not in run.stdout


def test_the_same_inputs_are_answered_alike_everywhere(address: str, tmp_path: Path) -> None:
    texts = [*WORDS, "", "  su  ", "kalo\u00a0ta", "🙂 su"]
    expected = Translator(MODEL, engine="torch").translate(texts)
    given = "".join(f"{text}\n" for text in texts)
    command = [*SERVE[:-1], "translate", str(MODEL), "--engine", "torch", "--json"]
    written = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    lines = [json.loads(line) for line in written.splitlines()]
    python = json.loads(json.dumps([each.as_dict() for each in expected]))
    assert [{key: value for key, value in line.items() if key != "line"} for line in lines] == python
    with Client(address) as client:
        assert client.decode(texts) == python
        assert client.translate(texts, "aa", "bb") == [each.text for each in expected]
        *partial, last = client.stream(texts)
        assert last == python
        assert partial

    async def ask() -> None:
        async with AsyncClient(address) as client:
            assert await client.decode(texts) == python
            assert await client.translate(texts, "aa", "bb") == [each.text for each in expected]
            assert [each async for each in client.stream(texts)][-1] == python

    in_a_loop_of_its_own(ask())


def test_the_rest_of_both_clients(address: str, tmp_path: Path) -> None:
    pairs = [(word, word.upper()) for word in WORDS]
    page = tmp_path / "page.html"
    page.write_text("<p>kalo <b>minesu</b></p>")
    scores = json.loads(json.dumps([each.as_dict() for each in Translator(MODEL, engine="torch").score(pairs)]))
    vectors = TextVectors(MODEL).sentences(WORDS).tolist()
    with Client(address) as client:
        assert client.score(pairs) == scores
        assert client.embed(WORDS) == vectors
        (record,) = client.see("su")
        assert client.translate_file(page, "aa", "bb") == b"<p><b>MINESU</b> KALO</p>"
        languages, detected, server = client.languages(), client.detect("su"), client.server()
        with pytest.raises(ServerError, match=r"^/v1/stream: Invalid request: texts must be"):
            list(client.stream([]))

    async def ask() -> None:
        async with AsyncClient(address) as client:
            assert await client.score(pairs) == scores
            assert await client.embed(WORDS) == vectors
            assert await client.see("su") == [record]
            assert await client.translate_file(page, "aa", "bb") == b"<p><b>MINESU</b> KALO</p>"
            assert (await client.languages(), await client.detect("su"), await client.server()) == (
                languages,
                detected,
                server,
            )
            with pytest.raises(ServerError, match="status 404"):
                await client.score(pairs, model="none")

    in_a_loop_of_its_own(ask())
    with pytest.raises(ServerError, match=r"^http://localhost:1: no answer that can be read"):
        Client("http://localhost:1").languages()


def test_the_steps_of_the_dockerfile_can_be_read() -> None:
    """`deploy/check_image_steps.py` runs them."""
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    named = re.findall(r"^([A-Z]+) (.*)$", text, re.M)
    assert {"FROM", "COPY", "RUN", "USER", "HEALTHCHECK"} <= {name for name, _ in named}
    for name, rest in named:
        if name == "COPY" and not rest.startswith("--from"):
            assert all((ROOT / file).exists() for file in rest.split()[:-1])
    command = json.loads(dict(named)["ENTRYPOINT"]) + json.loads(dict(named)["CMD"])
    assert command[:2] == ["qkv", "serve"]
