"""The tokenizer protocol and the registry of kinds."""

import hashlib
import json
import random
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NotRequired, Protocol

from pydantic import with_config
from typing_extensions import TypedDict

from qkv.config.base import Config, Kinds
from qkv.core.errors import CorruptFolder, UsageError
from qkv.core.reading import STRICT, open_file, read_record
from qkv.text.normalize import NormalizeConfig
from qkv.text.special import SpecialIds

SETTINGS = "settings.json"


class OutputTokenizer(Protocol):
    """What is needed of a tokenizer to read and write outputs; the methods are those of `Tokenizer`."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def tokens(self, ids: Sequence[int]) -> list[str]: ...


class Tokenizer(Protocol):
    """Text to ids and back: `decode(encode(text)) == normalize(text)` unless the text has unknown pieces."""

    special: SpecialIds

    def __len__(self) -> int:
        """The vocabulary size, special ids included."""

    def normalize(self, text: str) -> str:
        """The documented normal form: what decoding gives back."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, deterministic: ordinary ones and unk, never a control id, whatever the text contains."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, faster."""

    def sample(self, text: str, random: random.Random) -> list[int]:
        """A sampled segmentation of the text, as configured; depends only on the text and on `random`."""

    def unknowns(self, text: str) -> list[str]:
        """The pieces of a text that `encode` gives unk for, in order."""

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        """The text of all ids but the control ids; unk reads as ⁇, or as the next of `unknowns` if there are any."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """One piece for each id, for display: a space is shown as ▁."""

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files into an existing folder."""

    def definition(self) -> dict[str, Any]:
        """Everything that determines the ids of a text, as plain data."""


class TokenizerConfig(Config):
    """The settings that every kind of tokenizer has."""

    trainable: ClassVar[bool] = True
    """Whether its pieces can be learned from texts."""

    normalize: NormalizeConfig = NormalizeConfig()
    """What is done to a text before it is cut into pieces."""

    @property
    def samples(self) -> bool:
        """Whether `sample` of its tokenizer ever differs from `encode`."""
        return False

    @abstractmethod
    def train(self, texts: Iterable[str]) -> Tokenizer:
        """Learn the pieces from `texts`, read once; the same texts give the same pieces."""

    @abstractmethod
    def load(self, folder: Path) -> Tokenizer:
        """The tokenizer that `save` wrote into `folder`."""


tokenizers = Kinds[TokenizerConfig]("tokenizer")


def fingerprint(tokenizer: Tokenizer) -> str:
    """SHA-256 over what decides the ids, so equal tokenizers agree whatever the bytes of their files."""
    definition = json.dumps(tokenizer.definition(), sort_keys=True)
    return hashlib.sha256(definition.encode()).hexdigest()


@with_config(STRICT)
class TokenizerSettings(TypedDict):
    """What the pieces of a tokenizer were learned with."""

    kind: str
    normalize: dict[str, str | bool | None]
    model: NotRequired[str]


def write_settings(folder: Path, kind: str, normalization: NormalizeConfig, model: str | None = None) -> None:
    """Save beside the pieces what they were learned with; `model` where a kind has several."""
    settings = _settings(kind, normalization, model)
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _settings(kind: str, normalization: NormalizeConfig, model: str | None) -> TokenizerSettings:
    settings: TokenizerSettings = {"kind": kind, "normalize": normalization.model_dump()}
    if model:
        settings["model"] = model
    return settings


def check_settings(folder: Path, kind: str, normalization: NormalizeConfig, model: str | None = None) -> None:
    """Reject pieces that were learned with another kind or normal form: the same text would get different ids."""
    saved = read_record(folder / SETTINGS, TokenizerSettings, "the settings of a tokenizer")
    wanted = _settings(kind, normalization, model)
    if saved != wanted:
        raise UsageError(
            f"{folder}: the tokenizer was trained with {json.dumps(saved)}, the configuration says "
            f"{json.dumps(wanted)}; use the saved settings or train the tokenizer again"
        )


def read_file(path: Path) -> bytes:
    """The content of a file of a tokenizer."""
    try:
        with open_file(path) as file:
            return file.read()
    except OSError as error:
        raise CorruptFolder(f"{path}: cannot be read ({error.strerror}); the tokenizer is incomplete") from error
