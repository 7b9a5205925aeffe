"""`kind: bpe`: byte-level byte pair encoding, which can encode every text without unknowns."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, with_config
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers
from typing_extensions import TypedDict

from qkv.core.errors import CorruptFolder, DataError
from qkv.core.reading import Count, parse_record
from qkv.text.normalize import NormalizeConfig, normalize
from qkv.text.reservoir import reservoir
from qkv.text.segmentation import MergeSampler
from qkv.text.special import CONTROL, NAMES, SPECIAL, UNKNOWN_MARK, SpecialIds
from qkv.text.tokenizer import TokenizerConfig, check_settings, read_file, tokenizers, write_settings

MODEL = "tokenizer.json"
KIND = "bpe"


@tokenizers.register
class BytePairConfig(TokenizerConfig):
    """Byte-level BPE (Sennrich 2016, Radford 2019): frequent byte sequences inside words become pieces."""

    kind: Literal["bpe"] = "bpe"
    vocab_size: int = Field(default=8000, ge=len(NAMES) + 256)
    """The most pieces to learn, the 256 bytes and five special ids included; a small text gives fewer."""
    dropout: float = Field(default=0.0, ge=0.0, le=1.0)
    """BPE-dropout: the probability of skipping a merge when a training sentence is segmented; 0.1 is common."""
    max_texts: int = Field(default=1_000_000, ge=1)
    """Learn from a random sample of this many texts when there are more."""

    @property
    def samples(self) -> bool:
        return self.dropout > 0

    def train(self, texts: Iterable[str]) -> "BytePairTokenizer":
        sample = [_spaced(t) for text in reservoir(texts, self.max_texts) if (t := normalize(text, self.normalize))]
        if not sample:
            raise DataError("there is no text to learn the tokenizer from; give it at least one line that is not blank")
        library = Library(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        library.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            special_tokens=list(NAMES),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        library.train_from_iterator(sample, trainer)
        return BytePairTokenizer(library, self.normalize, self.dropout)

    def load(self, folder: Path) -> "BytePairTokenizer":
        check_settings(folder, KIND, self.normalize)
        path = folder / MODEL
        content = read_file(path)
        _check_ids(parse_record(content, _SavedTokenizer, path, "a tokenizer of qkv"), path)
        try:
            return BytePairTokenizer(Library.from_str(content.decode()), self.normalize, self.dropout)
        # The library raises a bare Exception for a bad file.
        except Exception as error:
            raise CorruptFolder(
                f"{path}: is not a tokenizer of qkv ({error}); use another copy of the folder"
            ) from error


class BytePairTokenizer:
    """Normal form: what the `normalize` settings give, nothing more. A word's piece holds the space before it."""

    special: SpecialIds = SPECIAL

    def __init__(self, library: Library, normalization: NormalizeConfig, dropout: float = 0.0) -> None:
        model = json.loads(library.to_str())["model"]
        self._ids: dict[str, int] = model["vocab"]
        self._merges = [(left, right) for left, right in model["merges"]]
        _check(self._ids, self._merges)
        library.encode_special_tokens = True  # a typed "</s>" is text; the library does not save this
        self._library = library
        self._normalization = normalization
        self._bytes = _piece_bytes(self._ids)
        self._sampler = None
        if dropout:
            self._sampler = MergeSampler({pair: rank for rank, pair in enumerate(self._merges)}, dropout)

    def __len__(self) -> int:
        return len(self._bytes)

    def normalize(self, text: str) -> str:
        return normalize(text, self._normalization)

    def encode(self, text: str) -> list[int]:
        return list(self._library.encode(_spaced(self.normalize(text)), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        spaced = [_spaced(self.normalize(text)) for text in texts]
        return [list(e.ids) for e in self._library.encode_batch_fast(spaced, add_special_tokens=False)]

    def sample(self, text: str, random: random.Random) -> list[int]:
        if self._sampler is None:
            return self.encode(text)
        words = self._library.pre_tokenizer.pre_tokenize_str(_spaced(self.normalize(text)))
        return [self._ids[piece] for piece in self._sampler((word for word, _ in words), random)]

    def unknowns(self, text: str) -> list[str]:
        """None: every byte is a piece."""
        return []

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        """Bytes that are no UTF-8 (a model may write them) read as U+FFFD."""
        rest = iter(unknowns)
        pieces = (
            next(rest, UNKNOWN_MARK).encode() if i == SPECIAL.unk else self._bytes[i] for i in ids if i not in CONTROL
        )
        return b"".join(pieces).decode(errors="replace").removeprefix(" ")

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [NAMES[i] if i < len(NAMES) else _shown(self._bytes[i]) for i in ids]

    def save(self, folder: Path) -> None:
        write_settings(folder, KIND, self._normalization)
        (folder / MODEL).write_text(self._library.to_str(pretty=True) + "\n", encoding="utf-8")

    def definition(self) -> dict[str, Any]:
        pieces = sorted(self._ids, key=self._ids.__getitem__)
        return {
            "kind": KIND,
            "normalize": self._normalization.model_dump(),
            "pieces": pieces,
            "merges": self._merges,
        }


def _spaced(text: str) -> str:
    """The first word gets the space that the others have, so that it is the same piece anywhere."""
    return " " + text if text else text


@with_config(ConfigDict(strict=True, extra="allow"))
class _AddedToken(TypedDict):
    id: Count


@with_config(ConfigDict(strict=True, extra="allow"))
class _SavedModel(TypedDict):
    vocab: dict[str, Count]


@with_config(ConfigDict(strict=True, extra="allow"))
class _SavedTokenizer(TypedDict):
    """The part of the file that is checked before the library reads it."""

    added_tokens: list[_AddedToken]
    model: _SavedModel


def _check_ids(saved: _SavedTokenizer, path: Path) -> None:
    """The library counts up to the largest id, however large that is."""
    ids = saved["model"]["vocab"].values()
    if sorted(ids) != list(range(len(ids))) or any(token["id"] >= len(ids) for token in saved["added_tokens"]):
        raise CorruptFolder(f"{path}: is not a tokenizer of qkv (an id is missing); use another copy of the folder")


def _check(ids: dict[str, int], merges: list[tuple[str, str]]) -> None:
    if [ids.get(name) for name in NAMES] != list(range(len(NAMES))) or sorted(ids.values()) != list(range(len(ids))):
        raise ValueError(f"its first ids must be {' '.join(NAMES)} and none may be missing")
    if any(left + right in NAMES for left, right in merges):
        raise ValueError("a merge makes a special token out of text")


def _byte_of() -> dict[str, int]:
    """The byte that each letter of a byte-level piece stands for.

    Printable Latin-1 characters stand for themselves; the other bytes, in order, for U+0100 onwards.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


def _piece_bytes(ids: dict[str, int]) -> list[bytes]:
    byte_of = _byte_of()
    ordinary = sorted((i, piece) for piece, i in ids.items() if i >= len(NAMES))
    names = [UNKNOWN_MARK.encode() if i == SPECIAL.unk else b"" for i in range(len(NAMES))]
    return names + [bytes(byte_of[letter] for letter in piece) for _, piece in ordinary]


def _shown(piece: bytes) -> str:
    """A piece as text; a part of a character is shown as its bytes."""
    try:
        return piece.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return "".join(chr(byte) if 0x20 < byte < 0x7F else f"<0x{byte:02X}>" for byte in piece)
