"""The addresses under /v1 of a real server: the same numbers as in Python, streams, and an exact description."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from qkv import Translator
from qkv.translate.ask.vectors import TextVectors
from qkv.visual.see.record import as_record
from qkv.visual.see.sentence import see_sentence
from tests.support.server import MODEL, WORDS, serving


@pytest.fixture(scope="module")
def http() -> Iterator[httpx2.Client]:
    with serving("workers=1") as address, httpx2.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(MODEL, engine="torch", workers=1)


@pytest.fixture(scope="module")
def described(http: httpx2.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/openapi.json").json()
    assert http.get("/spec").json() == found
    return found


def fits(described: dict[str, Any], path: str, method: str, response: httpx2.Response) -> Any:
    """The answer, which the description of its address must describe."""
    operation = described["paths"][path][method]
    schema = operation["responses"][str(response.status_code)]["content"]["application/json"]["schema"]
    jsonschema_rs.validate(schema | {"components": described["components"]}, response.json())
    return response.json()


def test_translations_are_those_of_python(
    http: httpx2.Client, translator: Translator, described: dict[str, Any]
) -> None:
    body: dict[str, Any] = {"texts": WORDS, "nbest": 2, "alignment": True, "likely": 3}
    answer = fits(described, "/v1/translate", "post", http.post("/v1/translate", json=body))
    expected = translator.translate(WORDS, nbest=2, alignment=True, likely=3)
    assert answer["translations"] == json.loads(json.dumps([each.as_dict() for each in expected]))
    assert answer["engine"] == "torch"
    assert answer["seconds"] > 0
    first = answer["translations"][0]
    again = {"texts": WORDS[:1], "prefix_tokens": [[*first["tokens"][:2], "SU"]]}
    forced = fits(described, "/v1/translate", "post", http.post("/v1/translate", json=again))["translations"][0]
    assert forced["tokens"][:3] == [*first["tokens"][:2], "SU"]


def test_a_stream_ends_with_the_same(http: httpx2.Client, translator: Translator) -> None:
    body = {"texts": WORDS[:2], "search": {"kind": "greedy"}}
    with http.stream("POST", "/v1/stream", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [part.split("\n") for part in response.read().decode().split("\n\n") if part]
    named = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in events]
    assert {name for name, _ in named} == {"partial", "result"}
    expected = [each.as_dict() for each in Translator(MODEL, engine="torch", search="greedy").translate(WORDS[:2])]
    assert named[-1][0] == "result"
    assert named[-1][1]["translations"] == json.loads(json.dumps(expected))
    for index in range(2):
        own = [data["text"] for name, data in named if name == "partial" and data["index"] == index]
        assert own[-1] == expected[index]["text"]
        assert [len(text) for text in own] == sorted(len(text) for text in own)
    refused = http.post("/v1/stream", json={"texts": ["su"], "nbest": 3, "search": {"kind": "greedy"}})
    assert (refused.status_code, "greedy search gives one output" in refused.json()["error"]) == (400, True)


def test_scores_and_vectors_are_those_of_python(
    http: httpx2.Client, translator: Translator, described: dict[str, Any]
) -> None:
    pairs = [(word, word.upper()) for word in WORDS]
    scored = fits(described, "/v1/score", "post", http.post("/v1/score", json={"pairs": pairs}))
    assert scored["scores"] == json.loads(json.dumps([each.as_dict() for each in translator.score(pairs)]))
    vectors = TextVectors(Path(MODEL))
    for pooling in ("mean", "first"):
        body = {"texts": WORDS, "pooling": pooling, "normalize": True}
        found = fits(described, "/v1/embeddings", "post", http.post("/v1/embeddings", json=body))
        assert found["vectors"] == vectors.sentences(WORDS, pooling, normalize=True).tolist()
    body = {"texts": WORDS, "pooling": "tokens"}
    found = fits(described, "/v1/embeddings", "post", http.post("/v1/embeddings", json=body))
    assert found["tokens"] == [each.tokens for each in vectors.encode(WORDS)]
    assert found["token_vectors"] == [each.states.tolist() for each in vectors.encode(WORDS)]


def test_the_inside_is_that_of_qkv_see(http: httpx2.Client, translator: Translator, described: dict[str, Any]) -> None:
    body = {"text": WORDS[0], "search": {"kind": "beam", "size": 2}, "compare": "model"}
    answer = fits(described, "/v1/see", "post", http.post("/v1/see", json=body))
    assert answer["format"] == 1
    assert len(answer["records"]) == 2
    seen = see_sentence(translator.models.loaded[0], WORDS[0], {"kind": "beam", "size": 2}, "model")
    assert answer["records"][0] == json.loads(json.dumps(as_record(seen)))
    assert http.post("/v1/see", json={"text": "a" * 501}).status_code == 400


def test_what_a_page_needs_first(http: httpx2.Client, described: dict[str, Any]) -> None:
    server = fits(described, "/v1/server", "get", http.get("/v1/server"))
    models = fits(described, "/v1/models", "get", http.get("/v1/models"))
    assert server["models"] == models
    assert (models[0]["name"], models[0]["source"], models[0]["left_to_right"]) == ("model", "aa", True)
    assert models[0]["search"]["kind"] in models[0]["searches"]
    assert server["limits"]["beam"] == 16


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "passes": ("/v1/translate", {"texts": ["a"], "search": {"kind": "refine", "passes": 101}}),
    "a wrong kind of search": ("/v1/translate", {"texts": ["a"], "search": {"kind": "refine"}}),
    "two prefixes": ("/v1/translate", {"texts": ["a"], "prefixes": ["a"], "prefix_tokens": [["A"]]}),
    "tokens that are not there": ("/v1/translate", {"texts": ["a"], "prefix_tokens": [["none"]]}),
    "no pair": ("/v1/score", {"pairs": [["a"]]}),
    "many pairs": ("/v1/score", {"pairs": [["a", "b"]] * 65}),
    "pooling": ("/v1/embeddings", {"texts": ["a"], "pooling": "none"}),
    "a long text": ("/v1/embeddings", {"texts": ["a" * 5001]}),
    "vectors of too many tokens": ("/v1/embeddings", {"texts": ["a" * 2501] * 2, "pooling": "tokens"}),
    "no text": ("/v1/see", {"text": ""}),
    "a beam to see": ("/v1/see", {"text": "su", "search": {"size": 17}}),
}


@pytest.mark.parametrize(("path", "body"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(http: httpx2.Client, described: dict[str, Any], path: str, body: dict[str, Any]) -> None:
    response = http.post(path, json=body)
    assert response.status_code == 400, response.text
    assert fits(described, path, "post", response)["error"].startswith("Invalid request: ")
