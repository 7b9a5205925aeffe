"""A client of `qkv serve`, and of any server with the interface of LibreTranslate."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from qkv.core.errors import QkvError, UsageError

try:
    import httpx2
except ImportError as error:
    raise UsageError("the client needs httpx2; install it with: pip install 'qkv[client]'") from error


class ServerError(QkvError):
    """The server refused a request, or could not be reached."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status; None: there was no answer."""


class Client:
    """Translates by a server.

    Examples:
        >>> from qkv.client import Client
        >>> client = Client("http://localhost:5000")  # doctest: +SKIP
        >>> client.translate("No sé.", source="es", target="en")  # doctest: +SKIP
        "I don't know."
    """

    def __init__(self, address: str = "http://localhost:5000", api_key: str | None = None, seconds: float = 60) -> None:
        self.api_key = api_key
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
        self, texts: str, source: str, target: str
    ) -> str: ...

    @overload
    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]: ...

    def translate(self, texts: str | Sequence[str], source: str, target: str) -> str | list[str]:
        """The translation of one text, or of each text of a list."""
        given = texts if isinstance(texts, str) else list(texts)
        answer = self.post("/translate", {"q": given, "source": source, "target": target})
        found: str | list[str] = answer["translatedText"]
        return found

    def decode(self, texts: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        """Translations with scores and tokens; options are those of /v1/translate (nbest, alignment, search ...)."""
        answer = self.post("/v1/translate", {"texts": list(texts), **options})
        found: list[dict[str, Any]] = answer["translations"]
        return found

    def languages(self) -> list[dict[str, Any]]:
        """The languages of the server, and what each can be translated to."""
        found: list[dict[str, Any]] = self._ask(lambda: self._http.get("/languages"))
        return found

    def post(self, path: str, fields: Mapping[str, Any]) -> Any:
        """The answer to a request; raises ServerError."""
        body = dict(fields) if self.api_key is None else {**fields, "api_key": self.api_key}
        return self._ask(lambda: self._http.post(path, json=body))

    def _ask(self, send: "Callable[[], httpx2.Response]") -> Any:
        try:
            return _answer(send())
        except (httpx2.HTTPError, ValueError) as error:
            raise ServerError(f"{self._http.base_url}: no answer that can be read ({error})") from error


def _answer(response: "httpx2.Response") -> Any:
    if response.is_success:
        return response.json()
    try:
        message = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        message = response.text[:200]
    raise ServerError(f"{response.url.path}: {message} (status {response.status_code})", response.status_code)
