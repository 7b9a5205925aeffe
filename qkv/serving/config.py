"""What a server serves, and its limits."""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from qkv.config import Config
from qkv.core.errors import UsageError
from qkv.core.files import read_manifest
from qkv.kernels.threads import cores
from qkv.models.saved.locate import locate_model
from qkv.serving.languages import CODE, full_code, pair_of_name

MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServedModelConfig(Config):
    """One model of a server."""

    path: Path
    """Folder of a model or of a run, or the name of a model that comes with qkv."""
    name: str | None = None
    """Its name in requests; default: that of its folder."""
    source: str | None = None
    """Language code of the source; default: what the model's folder or its name (es-en) says."""
    target: str | None = None
    """Language code of the target; default: what the model's folder or its name (es-en) says."""
    engine: str = "auto"
    """The engine that decodes; auto: the fastest that is installed."""
    search: dict[str, Any] = Field(default_factory=dict)
    """Settings of the search, as in `qkv translate`; default: the model's own."""

    @field_validator("name")
    @classmethod
    def _is_simple(cls, name: str | None) -> str | None:
        if name is not None and not MODEL_NAME.fullmatch(name):
            raise ValueError("must have 1 to 64 lower-case letters, digits, dots, hyphens and underscores")
        return name

    @field_validator("source", "target")
    @classmethod
    def _is_code(cls, code: str | None) -> str | None:
        if code is not None and not CODE.fullmatch(code):
            raise ValueError("must be a language code such as de or pt-BR")
        return None if code is None else full_code(code)

    @property
    def shown_name(self) -> str:
        """Its name in requests."""
        return self.name or self.path.resolve().name.lower()

    def languages(self) -> tuple[str, str]:
        """Codes of source and target; raises UsageError if nothing says what they are."""
        known = read_manifest(locate_model(self.path)).get("languages") or pair_of_name(self.shown_name) or (None, None)
        source, target = self.source or known[0], self.target or known[1]
        if source is None or target is None:
            raise UsageError(
                f"{self.path}: nothing says which languages it translates; write {self.path}=de-en, or its source and "
                "target in the file of --config"
            )
        return full_code(source), full_code(target)


class LimitsConfig(Config):
    """What a client may ask for."""

    body_bytes: int = Field(default=1 << 20, ge=1024)
    """Bytes of a request's body; more are answered with 413."""
    body_seconds: float = Field(default=30, gt=0)
    """Seconds until all of a body must have arrived; later is answered with 408."""
    header_seconds: float = Field(default=10, gt=0)
    """Seconds until all headers of a request must have arrived; the connection is closed then."""
    text_characters: int = Field(default=5000, ge=1)
    """Characters of one text."""
    texts: int = Field(default=64, ge=1)
    """Texts of one request."""
    pieces: int = Field(default=2000, ge=1)
    """Pieces of text of one request: the lines of a file, or the texts between the tags of its pages."""
    alternatives: int = Field(default=5, ge=0)
    """Alternatives of a translation."""
    beam: int = Field(default=16, ge=1)
    """The largest beam that a request may ask for."""
    passes: int = Field(default=100, ge=1)
    """The most passes over an output that a request may ask for."""
    see_characters: int = Field(default=500, ge=1)
    """Characters of a text whose computation is shown: the answer grows with their square."""
    seconds: float = Field(default=30, gt=0)
    """Seconds until a request is given up with 504."""
    per_minute: int = Field(default=0, ge=0)
    """Requests that one address may send in a minute without a valid key; more are answered with 429. 0: any number."""


class ServeConfig(Config):
    """A translation server."""

    models: list[ServedModelConfig]
    """The models; the first one that translates a pair of languages is the default for it."""
    host: str = "127.0.0.1"
    """The address to listen at; 0.0.0.0 is every address of the machine."""
    port: int = Field(default=5000, ge=0, le=65535)
    """The port to listen at; 0: any free one."""
    workers: int | None = Field(default=None, ge=1, le=256)
    """Worker processes of one thread each; default: one for each core."""
    preload: bool = True
    """Load all models at the start, and answer when they are there; false: load each when it is first used."""
    loaded_models: int = Field(default=8, ge=1)
    """Models in the memory of a worker; the least recently used one is unloaded."""
    memory_mb: float | None = Field(default=None, gt=0)
    """Megabytes of models in the memory of a worker, by the size of their folders; null: any. At least one is kept."""
    window_ms: float = Field(default=2, ge=0, le=1000)
    """Milliseconds that a text waits for others to share its batch."""
    batch_tokens: int = Field(default=4096, ge=16)
    """Tokens of a batch across requests, padding included, estimated from the characters."""
    queue: int = Field(default=128, ge=1)
    """Requests that may wait or be worked on at once; more are answered with 429."""
    drain_seconds: float = Field(default=30, ge=0)
    """Seconds that a server which was told to end gives to the requests that it has taken."""
    hosts: list[str] = Field(default_factory=list)
    """Host names, besides those of this machine, under which clients may reach the server."""
    trusted_proxies: list[str] = Field(default_factory=list)
    """Addresses or networks (10.0.0.0/8) of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    origins: list[str] = Field(default_factory=list)
    """Origins of pages (https://example.org) whose scripts may use the server from a browser."""
    keys: Path | None = None
    """File of API keys, as `qkv keys` writes it; null: nobody needs a key."""
    log: Literal["errors", "requests"] = "errors"
    """What is written to standard error: failures alone, or a JSON object for each request, too. Never a text."""
    metrics: bool = True
    """Whether /metrics answers."""
    limits: LimitsConfig = LimitsConfig()
    """What a client may ask for."""

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, proxies: list[str]) -> list[str]:
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError as error:
                raise ValueError(
                    f"{proxy}: is not an address such as 127.0.0.1 or a network such as 10.0.0.0/8"
                ) from error
        return proxies

    @field_validator("models")
    @classmethod
    def _has_distinct_names(cls, models: list[ServedModelConfig]) -> list[ServedModelConfig]:
        names = [model.shown_name for model in models]
        if not names:
            raise ValueError("must name a model, such as es-en")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two models are called {twice[0]}; give one of them another name")
        return models

    @property
    def num_workers(self) -> int:
        """Worker processes."""
        return self.workers or cores()
