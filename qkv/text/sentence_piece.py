"""`kind: sentencepiece`: subwords by SentencePiece, BPE or unigram."""

import io
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from qkv.core.errors import CorruptFolder, DataError, UsageError
from qkv.text.normalize import NormalizeConfig, normalize
from qkv.text.reservoir import reservoir
from qkv.text.segmentation import MergeSampler, UnigramSampler
from qkv.text.special import CONTROL, NAMES, SPECIAL, UNKNOWN_MARK, SpecialIds
from qkv.text.tokenizer import TokenizerConfig, check_settings, read_file, tokenizers, write_settings

MODEL = "sentencepiece.model"
KIND = "sentencepiece"
SPACE = "▁"
THREADS = 4
"""Fixed, because the pieces of a unigram model depend on it."""
FEW = 64
"""Texts that are encoded one after the other."""
UNKNOWN_PENALTY = 10.0
"""SentencePiece scores an unknown character this far below its worst piece."""

Model = Literal["bpe", "unigram"]


@tokenizers.register
class SentencePieceConfig(TokenizerConfig):
    """Subwords learned by BPE or by the unigram model (Kudo 2018), which can sample several segmentations of a word."""

    kind: Literal["sentencepiece"] = "sentencepiece"
    model: Model = "bpe"
    """`bpe` merges frequent neighbours; `unigram` keeps the pieces that make the text most probable."""
    vocab_size: int = Field(default=8000, gt=len(NAMES))
    """Exactly this many pieces, the five special ids (and 256 bytes, with `byte_fallback`) included."""
    byte_fallback: bool = True
    """Write a character that was not seen in training as its bytes, so that nothing is unknown."""
    character_coverage: float = Field(default=1.0, gt=0.0, le=1.0)
    """The part of the training text whose characters become pieces; 0.9995 is common for Chinese or Japanese."""
    sampling: float = Field(default=0.0, ge=0.0)
    """Sampled segmentation of training sentences; 0 is off. `bpe`: the probability of skipping a merge (0.1 is common).
    `unigram`: the exponent alpha on the probability of a segmentation (0.2 is common; larger values
    stay closer to the best one)."""
    max_texts: int = Field(default=1_000_000, ge=1)
    """Learn from a random sample of this many texts when there are more."""

    @model_validator(mode="after")
    def _dropout_is_a_probability(self) -> "SentencePieceConfig":
        if self.model == "bpe" and self.sampling > 1:
            raise ValueError("sampling is a probability for model bpe; give a number from 0 to 1")
        return self

    @property
    def samples(self) -> bool:
        return self.sampling > 0

    def train(self, texts: Iterable[str]) -> "SentencePieceTokenizer":
        sample = [t for text in reservoir(texts, self.max_texts) if (t := _normal_form(text, self.normalize))]
        if not sample:
            raise DataError("there is no text to learn the tokenizer from; give it at least one line that is not blank")
        return SentencePieceTokenizer(_train(sample, self), self.normalize, self.model, self.sampling)

    def load(self, folder: Path) -> "SentencePieceTokenizer":
        check_settings(folder, KIND, self.normalize, self.model)
        path = folder / MODEL
        try:
            return SentencePieceTokenizer(read_file(path), self.normalize, self.model, self.sampling)
        except (RuntimeError, ValueError) as error:
            raise CorruptFolder(
                f"{path}: is not a tokenizer of qkv ({error}); use another copy of the folder"
            ) from error


class SentencePieceTokenizer:
    """Normal form: U+2581 (▁, SentencePiece's own mark) becomes a space, then the `normalize` settings."""

    special: SpecialIds = SPECIAL

    def __init__(self, proto: bytes, normalization: NormalizeConfig, model: Model, sampling: float = 0.0) -> None:
        self._proto = proto
        self._processor = SentencePieceProcessor(model_proto=proto)
        every = list(range(len(self._processor)))
        self._pieces: list[str] = self._processor.id_to_piece(every)
        self._scores: list[float] = self._processor.get_score(every)
        if tuple(self._pieces[: len(NAMES)]) != NAMES:
            raise ValueError(f"its first ids must be {' '.join(NAMES)}")
        self._processor.decode([SPECIAL.unk])  # the text of the unknown is stored apart, and may be no UTF-8
        self._normalization = normalization
        self._model = model
        ordinary = [i for i in every[len(NAMES) :] if not self._processor.is_byte(i)]
        self._ids = {self._pieces[i]: i for i in ordinary}
        self._byte_ids = [i for i in every if self._processor.is_byte(i)]
        self._sampler = self._make_sampler(model, sampling) if sampling else None

    def _make_sampler(self, model: Model, sampling: float) -> MergeSampler | UnigramSampler:
        if model == "bpe":
            return MergeSampler(_ranks(self._ids), sampling)
        scores = {piece: self._scores[i] for piece, i in self._ids.items()}
        return UnigramSampler(scores, min(scores.values()) - UNKNOWN_PENALTY, sampling)

    def __len__(self) -> int:
        return len(self._pieces)

    def normalize(self, text: str) -> str:
        return _normal_form(text, self._normalization)

    def encode(self, text: str) -> list[int]:
        return list(self._processor.encode(self.normalize(text)))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) <= FEW:
            # The library would start threads each time, which takes longer than the texts themselves.
            return [self.encode(text) for text in texts]
        return list(self._processor.encode([self.normalize(text) for text in texts]))

    def sample(self, text: str, random: random.Random) -> list[int]:
        if self._sampler is None:
            return self.encode(text)
        pieces = self._sampler(_words(self.normalize(text)), random)
        return list(_one_unknown_a_run(id for piece in pieces for id in self._ids_of(piece)))

    def _ids_of(self, piece: str) -> list[int]:
        known = self._ids.get(piece)
        if known is not None:
            return [known]
        return [self._byte_ids[byte] for byte in piece.encode()] if self._byte_ids else [SPECIAL.unk]

    def unknowns(self, text: str) -> list[str]:
        """A run of unknown characters is one piece."""
        normal = self.normalize(text)
        pieces: list[str] = self._processor.encode(normal, out_type=str)
        ids: list[int] = self._processor.encode(normal)
        return [piece for piece, i in zip(pieces, ids, strict=True) if i == SPECIAL.unk]

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        """Bytes that are no UTF-8 (a model may write them) read as U+FFFD; a run of unknowns was encoded as one."""
        ordinary = [i for i in ids if i not in CONTROL]
        if not unknowns:
            return str(self._processor.decode(ordinary))
        rest = iter(unknowns)
        pieces = [next(rest, UNKNOWN_MARK) if i == SPECIAL.unk else self._pieces[i] for i in ordinary]
        return str(self._processor.decode(pieces))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in ids]

    def save(self, folder: Path) -> None:
        write_settings(folder, KIND, self._normalization, self._model)
        (folder / MODEL).write_bytes(self._proto)

    def definition(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "normalize": self._normalization.model_dump(),
            "pieces": self._pieces,
            "scores": self._scores,
        }


def _normal_form(text: str, normalization: NormalizeConfig) -> str:
    return normalize(text.replace(SPACE, " "), normalization)


def _words(text: str) -> Iterator[str]:
    """The words as SentencePiece sees them, each with its space in front; no piece reaches over a space."""
    return (SPACE + word for word in text.split(" ")) if text else iter(())


def _ranks(ids: dict[str, int]) -> dict[tuple[str, str], int]:
    """SentencePiece merges any neighbours that make a piece, the smallest id (best score) first."""
    return {
        (piece[:cut], piece[cut:]): i
        for piece, i in ids.items()
        for cut in range(1, len(piece))
        if all(len(part) == 1 or part in ids for part in (piece[:cut], piece[cut:]))
    }


def _one_unknown_a_run(ids: Iterable[int]) -> Iterator[int]:
    """As SentencePiece does, so that sampling and encoding agree on unknown text."""
    for i, run in groupby(ids):
        yield from [i] if i == SPECIAL.unk else run


SPECIAL_IDS: dict[str, Any] = {
    "pad_id": SPECIAL.pad,
    "pad_piece": NAMES[SPECIAL.pad],
    "unk_id": SPECIAL.unk,
    "unk_piece": NAMES[SPECIAL.unk],
    "unk_surface": UNKNOWN_MARK,
    "bos_id": SPECIAL.bos,
    "bos_piece": NAMES[SPECIAL.bos],
    "eos_id": SPECIAL.eos,
    "eos_piece": NAMES[SPECIAL.eos],
    "control_symbols": [NAMES[SPECIAL.mask]],
}


def _train(texts: list[str], config: SentencePieceConfig) -> bytes:
    """The trained model as bytes; the text is normalised already, so the library must change nothing."""
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=config.model,
            vocab_size=config.vocab_size,
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=max(len(text.encode()) for text in texts) + 1,  # the library skips longer ones
            num_threads=THREADS,
            minloglevel=2,
            **SPECIAL_IDS,
        )
    except RuntimeError as error:
        raise _explained(str(error), config.vocab_size) from error
    return model.getvalue()


def _explained(message: str, vocab_size: int) -> UsageError | DataError:
    """The trainer's C++ check as a sentence with the number that would work."""
    if found := re.search(r"too high \(\d+\).*<= (\d+)", message):
        return UsageError(
            f"vocab_size {vocab_size} is more than this text can give; set it to {found[1]} or less, or add text"
        )
    if found := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return UsageError(
            f"vocab_size {vocab_size} is too small for the characters of this text; "
            f"set it to {found[1]} or more, or lower character_coverage"
        )
    return DataError(f"SentencePiece cannot learn from this text ({message}); look for odd lines in it")
