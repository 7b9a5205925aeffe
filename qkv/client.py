"""Clients of `qkv serve`, and of any server with the interface of LibreTranslate.

`Client` and, for asyncio, `AsyncClient` have the same methods. What an address takes and gives is in docs/rest.md.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, overload

from qkv.core.errors import QkvError, UsageError

try:
    import httpx2
except ImportError as error:
    raise UsageError("the client needs httpx2; install it with: pip install 'qkv[client]'") from error

ADDRESS = "http://localhost:5000"


class ServerError(QkvError):
    """The server refused a request, or could not be reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status; None: there was no answer."""


class LikelyDict(TypedDict):
    """A token that could stand at a place."""

    token: str
    probability: float


class OutputDict(TypedDict):
    """One output of a text."""

    text: str
    score: float
    tokens: list[str]
    token_scores: list[float]
    truncated: bool
    parts: int
    split_at: str | None
    src_tokens: list[str]
    unknown: list[str]
    alternatives: "list[OutputDict]"
    alignment: NotRequired[list[list[float]]]
    passes: NotRequired[int]
    likely: NotRequired[list[list[LikelyDict]]]


class ScoreDict(TypedDict):
    """log p of a target."""

    score: float
    per_token: float
    tokens: list[str]
    token_scores: list[float]


class LanguageDict(TypedDict):
    """A language, and what it can be translated to."""

    code: str
    name: str
    targets: list[str]


class DetectedDict(TypedDict):
    """A language, and how sure its detection is, from 0 to 100."""

    confidence: float
    language: str


class PartialDict(TypedDict):
    """What is written so far for one of the texts."""

    index: int
    part: int
    text: str
    tokens: list[str]


Pooling = Literal["mean", "first"]


class _Both:
    """What both clients have: the key, and how requests and answers look."""

    api_key: str | None
    address: str

    def _body(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return dict(fields) if self.api_key is None else {**fields, "api_key": self.api_key}

    def _unanswered(self, error: Exception) -> ServerError:
        return ServerError(f"{self.address}: no answer that can be read ({error})")


class Client(_Both):
    """Translates by a server.

    Examples:
        >>> from qkv.client import Client
        >>> client = Client("http://localhost:5000")  # doctest: +SKIP
        >>> client.translate("No sé.", source="es", target="en")  # doctest: +SKIP
        "I don't know."
    """

    def __init__(self, address: str = ADDRESS, api_key: str | None = None, seconds: float = 60) -> None:
        self.address, self.api_key = address, api_key
        self._http = httpx2.Client(base_url=address, timeout=seconds)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is a sequence of texts, too
        self, texts: str, source: str, target: str, format: Literal["text", "html"] = "text"
    ) -> str: ...

    @overload
    def translate(
        self, texts: Sequence[str], source: str, target: str, format: Literal["text", "html"] = "text"
    ) -> list[str]: ...

    def translate(
        self, texts: str | Sequence[str], source: str, target: str, format: Literal["text", "html"] = "text"
    ) -> str | list[str]:
        """The translation of one text, or of each text of a list."""
        given = texts if isinstance(texts, str) else list(texts)
        answer = self.post("/translate", {"q": given, "source": source, "target": target, "format": format})
        found: str | list[str] = answer["translatedText"]
        return found

    def decode(self, texts: Sequence[str], **options: Any) -> list[OutputDict]:
        """Outputs with scores and tokens; options are those of /v1/translate (nbest, alignment, search ...)."""
        found: list[OutputDict] = self.post("/v1/translate", {"texts": list(texts), **options})["translations"]
        return found

    def stream(self, texts: Sequence[str], **options: Any) -> Iterator[PartialDict | list[OutputDict]]:
        """The same while it is written: what there is so far, again and again, and at last the outputs."""
        try:
            body = self._body({"texts": list(texts), **options})
            with self._http.stream("POST", "/v1/stream", json=body) as response:
                if not response.is_success:
                    response.read()
                    _answer(response)
                yield from _events(response.iter_lines())
        except (httpx2.HTTPError, ValueError) as error:
            raise self._unanswered(error) from error

    def score(self, pairs: Sequence[tuple[str, str]], model: str | None = None) -> list[ScoreDict]:
        """log p(target | source) of pairs of source and target."""
        found: list[ScoreDict] = self.post("/v1/score", {"pairs": [list(pair) for pair in pairs], "model": model})[
            "scores"
        ]
        return found

    def embed(
        self, texts: Sequence[str], model: str | None = None, pooling: Pooling = "mean", normalize: bool = False
    ) -> list[list[float]]:
        """A vector for each text."""
        fields = {"texts": list(texts), "model": model, "pooling": pooling, "normalize": normalize}
        found: list[list[float]] = self.post("/v1/embeddings", fields)["vectors"]
        return found

    def see(self, text: str, **options: Any) -> list[dict[str, Any]]:
        """How a text is computed: the records of the page of `qkv see`; options are those of /v1/see."""
        found: list[dict[str, Any]] = self.post("/v1/see", {"text": text, **options})["records"]
        return found

    def detect(self, text: str) -> list[DetectedDict]:
        """The language of a text, the most probable first."""
        found: list[DetectedDict] = self.post("/detect", {"q": text})
        return found

    def languages(self) -> list[LanguageDict]:
        """The languages of the server, and what each can be translated to."""
        found: list[LanguageDict] = self.get("/languages")
        return found

    def server(self) -> dict[str, Any]:
        """The version, the limits and the models of the server."""
        found: dict[str, Any] = self.get("/v1/server")
        return found

    def translate_file(self, path: Path | str, source: str, target: str) -> bytes:
        """The translation of a text file, of subtitles or of a page."""
        fields, files = self._body({"source": source, "target": target}), _upload(path)
        made = self._ask(lambda: self._http.post("/translate_file", data=fields, files=files))
        place = httpx2.URL(made["translatedFileUrl"]).path
        return self._read(lambda: self._http.get(place)).content

    def get(self, path: str) -> Any:
        """The answer of an address; raises ServerError."""
        return self._ask(lambda: self._http.get(path))

    def post(self, path: str, fields: Mapping[str, Any]) -> Any:
        """The answer to a request; raises ServerError."""
        return self._ask(lambda: self._http.post(path, json=self._body(fields)))

    def _ask(self, send: "Callable[[], httpx2.Response]") -> Any:
        try:
            return self._read(send).json()
        except ValueError as error:
            raise self._unanswered(error) from error

    def _read(self, send: "Callable[[], httpx2.Response]") -> "httpx2.Response":
        try:
            return _answer(send())
        except httpx2.HTTPError as error:
            raise self._unanswered(error) from error


class AsyncClient(_Both):
    """The same for asyncio.

    Examples:
        >>> from qkv.client import AsyncClient
        >>> async def main():
        ...     async with AsyncClient("http://localhost:5000") as client:
        ...         return await client.translate(["No sé."], source="es", target="en")
    """

    def __init__(self, address: str = ADDRESS, api_key: str | None = None, seconds: float = 60) -> None:
        self.address, self.api_key = address, api_key
        self._http = httpx2.AsyncClient(base_url=address, timeout=seconds)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def translate(
        self, texts: Sequence[str], source: str, target: str, format: Literal["text", "html"] = "text"
    ) -> list[str]:
        """The translation of each text of a list."""
        fields = {"q": list(texts), "source": source, "target": target, "format": format}
        found: list[str] = (await self.post("/translate", fields))["translatedText"]
        return found

    async def decode(self, texts: Sequence[str], **options: Any) -> list[OutputDict]:
        """Outputs with scores and tokens; options are those of /v1/translate."""
        answer = await self.post("/v1/translate", {"texts": list(texts), **options})
        found: list[OutputDict] = answer["translations"]
        return found

    async def stream(self, texts: Sequence[str], **options: Any) -> AsyncIterator[PartialDict | list[OutputDict]]:
        """The same while it is written; closing it stops the work."""
        try:
            body = self._body({"texts": list(texts), **options})
            async with self._http.stream("POST", "/v1/stream", json=body) as response:
                if not response.is_success:
                    await response.aread()
                    _answer(response)
                event: list[str] = []
                async for line in response.aiter_lines():
                    event.append(line)
                    if not line:
                        for found in _events(event):
                            yield found
                        event = []
        except (httpx2.HTTPError, ValueError) as error:
            raise self._unanswered(error) from error

    async def score(self, pairs: Sequence[tuple[str, str]], model: str | None = None) -> list[ScoreDict]:
        """log p(target | source) of pairs of source and target."""
        answer = await self.post("/v1/score", {"pairs": [list(pair) for pair in pairs], "model": model})
        found: list[ScoreDict] = answer["scores"]
        return found

    async def embed(
        self, texts: Sequence[str], model: str | None = None, pooling: Pooling = "mean", normalize: bool = False
    ) -> list[list[float]]:
        """A vector for each text."""
        fields = {"texts": list(texts), "model": model, "pooling": pooling, "normalize": normalize}
        found: list[list[float]] = (await self.post("/v1/embeddings", fields))["vectors"]
        return found

    async def see(self, text: str, **options: Any) -> list[dict[str, Any]]:
        """How a text is computed: the records of the page of `qkv see`."""
        found: list[dict[str, Any]] = (await self.post("/v1/see", {"text": text, **options}))["records"]
        return found

    async def detect(self, text: str) -> list[DetectedDict]:
        """The language of a text, the most probable first."""
        found: list[DetectedDict] = await self.post("/detect", {"q": text})
        return found

    async def languages(self) -> list[LanguageDict]:
        """The languages of the server, and what each can be translated to."""
        found: list[LanguageDict] = await self.get("/languages")
        return found

    async def server(self) -> dict[str, Any]:
        """The version, the limits and the models of the server."""
        found: dict[str, Any] = await self.get("/v1/server")
        return found

    async def translate_file(self, path: Path | str, source: str, target: str) -> bytes:
        """The translation of a text file, of subtitles or of a page."""
        fields = self._body({"source": source, "target": target})
        made = (await self._ask("POST", "/translate_file", data=fields, files=_upload(path))).json()
        return (await self._ask("GET", httpx2.URL(made["translatedFileUrl"]).path)).content

    async def get(self, path: str) -> Any:
        """The answer of an address; raises ServerError."""
        return (await self._ask("GET", path)).json()

    async def post(self, path: str, fields: Mapping[str, Any]) -> Any:
        """The answer to a request; raises ServerError."""
        return (await self._ask("POST", path, json=self._body(fields))).json()

    async def _ask(self, method: str, path: str, **content: Any) -> "httpx2.Response":
        try:
            return _answer(await self._http.request(method, path, **content))
        except httpx2.HTTPError as error:
            raise self._unanswered(error) from error


def _upload(path: Path | str) -> dict[str, tuple[str, bytes]]:
    return {"file": (Path(path).name, Path(path).read_bytes())}


def _answer(response: "httpx2.Response") -> "httpx2.Response":
    """The response; raises ServerError if it is a refusal."""
    if response.is_success:
        return response
    try:
        message = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        message = response.text[:200]
    raise ServerError(f"{response.url.path}: {message} (status {response.status_code})", response.status_code)


def _events(lines: Iterable[str]) -> Iterator[PartialDict | list[OutputDict]]:
    """What server-sent events say; raises ServerError for an event `error`."""
    name = ""
    for line in lines:
        key, _, value = line.partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            data = json.loads(value)
            if name == "error":
                raise ServerError(f"/v1/stream: {data['error']}", data["status"])
            yield data["translations"] if name == "result" else data
