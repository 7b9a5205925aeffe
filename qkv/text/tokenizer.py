"""What every tokenizer can do, and the registry of their kinds."""

import hashlib
import json
import random
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from qkv.config.base import Config, Kinds
from qkv.errors import CorruptFolder, UsageError
from qkv.text.normalize import NormalizeConfig
from qkv.text.special import SpecialIds

SETTINGS = "settings.json"


class Tokenizer(Protocol):
    """Text to ids and back: `decode(encode(text)) == normalize(text)` unless the text has unknown pieces."""

    special: SpecialIds

    def __len__(self) -> int:
        """The vocabulary size, special ids included."""

    def normalize(self, text: str) -> str:
        """The documented normal form: what decoding gives back."""

    def encode(self, text: str) -> list[int]:
        """Always the same ids for a text: ordinary ones and unk, never a control id, whatever the text spells."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, faster."""

    def sample(self, text: str, random: random.Random) -> list[int]:
        """One of the ways to cut the text, as configured; a function of the text and of `random` alone."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of all ids but the control ids; unk reads as ⁇."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """One piece for each id, for people to look at: a space is shown as ▁."""

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files into an existing folder."""

    def definition(self) -> dict[str, Any]:
        """Everything that decides the ids of a text, as plain data."""


class TokenizerConfig(Config):
    """The settings that every kind of tokenizer has."""

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


def write_settings(folder: Path, kind: str, normalization: NormalizeConfig, model: str | None = None) -> None:
    """Save beside the pieces what they were learned with; `model` where a kind has several."""
    settings = _settings(kind, normalization, model)
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _settings(kind: str, normalization: NormalizeConfig, model: str | None) -> dict[str, Any]:
    return {"kind": kind, "normalize": normalization.model_dump()} | ({"model": model} if model else {})


def check_settings(folder: Path, kind: str, normalization: NormalizeConfig, model: str | None = None) -> None:
    """Refuse pieces that were learned with another kind or normal form: the same text would get other ids."""
    saved = read_json(folder / SETTINGS)
    wanted = _settings(kind, normalization, model)
    if saved != wanted:
        raise UsageError(
            f"{folder}: the tokenizer was trained with {json.dumps(saved)}, the configuration says "
            f"{json.dumps(wanted)}; use the saved settings or train the tokenizer again"
        )


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorruptFolder(f"{path}: cannot be read ({error.strerror}); the tokenizer is incomplete") from error


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_file(path))
    except ValueError as error:
        raise CorruptFolder(f"{path}: is not JSON; use another copy of the folder") from error
