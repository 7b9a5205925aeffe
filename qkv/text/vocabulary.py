"""A tokenizer with a list of pieces; the kinds differ in how they split and join a text."""

import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from qkv.core.errors import CorruptFolder, DataError, UsageError
from qkv.core.reading import read_record
from qkv.text.normalize import NormalizeConfig, normalize
from qkv.text.special import CONTROL, NAMES, SPECIAL, UNKNOWN_MARK, SpecialIds
from qkv.text.tokenizer import check_settings, write_settings

VOCABULARY = "vocabulary.json"
V = TypeVar("V", bound="VocabularyTokenizer")


class VocabularyTokenizer(ABC):
    """`pieces[i]` has id `i + len(NAMES)`; a piece that is not in the list is unk."""

    kind: ClassVar[str]
    special: SpecialIds = SPECIAL

    def __init__(self, pieces: Sequence[str], normalization: NormalizeConfig) -> None:
        self._shown = [*NAMES, *pieces]
        self._ids = {piece: i for i, piece in enumerate(pieces, start=len(NAMES))}
        self._surface = [UNKNOWN_MARK if i == SPECIAL.unk else piece for i, piece in enumerate(self._shown)]
        self._normalization = normalization

    @classmethod
    @abstractmethod
    def split(cls, text: str) -> Sequence[str]:
        """Cut a normalised text into pieces."""

    @classmethod
    @abstractmethod
    def join(cls, pieces: Iterable[str]) -> str:
        """The inverse of `split`."""

    @classmethod
    def learn(cls: type[V], texts: Iterable[str], normalization: NormalizeConfig, least: int, size: int | None) -> V:
        """The pieces seen at least `least` times, most frequent first, at most `size` ids with the special ones."""
        counts = Counter[str]()
        for text in texts:
            counts.update(cls.split(normalize(text, normalization)))
        if not counts:
            raise DataError("there is no text to learn the tokenizer from; give it at least one line that is not blank")
        # A word that spells a special name stays unknown, so that a name always means one id.
        frequent = sorted((-n, piece) for piece, n in counts.items() if n >= least and piece not in NAMES)
        if not frequent:
            raise UsageError(f"no piece of the text is seen {least} times; lower min_count")
        return cls([piece for _, piece in frequent[: None if size is None else size - len(NAMES)]], normalization)

    @classmethod
    def load(cls: type[V], folder: Path, normalization: NormalizeConfig) -> V:
        check_settings(folder, cls.kind, normalization)
        path = folder / VOCABULARY
        pieces = read_record(path, list[str], "a list of pieces")
        if len(set(pieces)) < len(pieces) or tuple(pieces[: len(NAMES)]) != NAMES:
            raise CorruptFolder(f"{path}: must begin with {' '.join(NAMES)} and have no piece twice")
        return cls(pieces[len(NAMES) :], normalization)

    def save(self, folder: Path) -> None:
        write_settings(folder, self.kind, self._normalization)
        pieces = json.dumps(self._shown, ensure_ascii=False, indent=0)
        (folder / VOCABULARY).write_text(pieces + "\n", encoding="utf-8")

    def __len__(self) -> int:
        return len(self._shown)

    def normalize(self, text: str) -> str:
        return self.join(self.split(normalize(text, self._normalization)))

    def encode(self, text: str) -> list[int]:
        ids, unk = self._ids, SPECIAL.unk
        return [ids.get(piece, unk) for piece in self.split(normalize(text, self._normalization))]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def sample(self, text: str, random: random.Random) -> list[int]:
        """The segmentation is unique."""
        return self.encode(text)

    def unknowns(self, text: str) -> list[str]:
        return [piece for piece in self.split(normalize(text, self._normalization)) if piece not in self._ids]

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        rest = iter(unknowns)
        return self.join(
            next(rest, UNKNOWN_MARK) if i == SPECIAL.unk else self._surface[i] for i in ids if i not in CONTROL
        )

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._shown[i].replace(" ", "▁") for i in ids]

    def definition(self) -> dict[str, Any]:
        return {"kind": self.kind, "normalize": self._normalization.model_dump(), "pieces": self._shown}
