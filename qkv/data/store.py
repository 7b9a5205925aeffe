"""The prepared corpus on disk, so that data larger than memory trains in bounded memory.

`text.bin` holds source and target of pair after pair, `index.bin` where each begins, `src_len.bin` and
`tgt_len.bin` the token counts (end token included), `store.json` the corpora and the report. Only the lengths
are kept in memory. Texts are read with `pread`, not mapped: mapped pages would count as resident memory.
Where a corpus has alignments, `alignments.txt` holds those of all pairs (see `alignments.stored`).
"""

import hashlib
import json
import os
import struct
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from pydantic import Field, with_config
from torch import Tensor
from typing_extensions import TypedDict

from qkv.core.errors import CorruptFolder
from qkv.core.files import MANIFEST, read_manifest, verify_folder
from qkv.core.reading import STRICT, Count, read_record
from qkv.data.alignments.stored import StoredAlignments
from qkv.text.tokenizer import Tokenizer

INDEX = np.dtype([("start", "<u8"), ("src", "<u4"), ("tgt", "<u4")])
"""Where a pair begins in `text.bin`, and how many bytes its source and its target have."""
LENGTH = np.dtype("<u4")
TEXT_FILE, INDEX_FILE, ABOUT_FILE = "text.bin", "index.bin", "store.json"
SRC_LEN_FILE, TGT_LEN_FILE = "src_len.bin", "tgt_len.bin"

LengthArray = npt.NDArray[np.uint32]


@with_config(STRICT)
@dataclass(frozen=True)
class PairLimits:
    """The most tokens of a side, its end token included."""

    max_src: Count
    max_tgt: Count


class CorpusRange(NamedTuple):
    """Pairs `start` to `stop` come from one corpus, which counts `weight` times an epoch."""

    start: Count
    stop: Count
    weight: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]


@with_config(STRICT)
@dataclass(frozen=True)
class StoreReport:
    """What became of the pairs of the corpora: read = kept + empty + too_long + invalid + held_out."""

    read: Count
    kept: Count
    empty: Count
    too_long: Count
    invalid: Count
    """Dropped for invalid UTF-8."""
    held_out: Count
    """Left to the other part of a hold-out."""
    replaced: Count
    """Texts with U+FFFD put in for invalid bytes."""
    src_tokens: Count
    """Of the pairs kept, end tokens included."""
    tgt_tokens: Count
    src_unknown: Count
    tgt_unknown: Count

    def lines(self) -> list[str]:
        """For people: the counts that are not zero."""
        counts = [
            (self.empty, "dropped: a side is empty"),
            (self.too_long, "dropped: longer than data.max_src_tokens or data.max_tgt_tokens"),
            (self.invalid, "dropped: invalid UTF-8"),
            (self.held_out, "left to the other part of the hold-out"),
            (self.replaced, "texts with invalid UTF-8 replaced by U+FFFD"),
        ]
        return [f"{self.kept:,} of {self.read:,} pairs kept"] + [f"{n:,} {what}" for n, what in counts if n]


class PairStore:
    """A prepared corpus, open for reading. Reading is thread-safe: it moves no file position."""

    def __init__(self, folder: Path, about: "About", fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint
        """SHA-256 of the content: pairs, lengths, corpora and weights."""
        self.ranges = about["ranges"]
        self.limits = about["limits"]
        self.report = about["report"]
        try:
            self.src_len: LengthArray = np.fromfile(folder / SRC_LEN_FILE, dtype=LENGTH)
            self.tgt_len: LengthArray = np.fromfile(folder / TGT_LEN_FILE, dtype=LENGTH)
            self._text = os.open(folder / TEXT_FILE, os.O_RDONLY)
            self._index = os.open(folder / INDEX_FILE, os.O_RDONLY)
        except OSError as error:
            raise CorruptFolder(f"{folder}: cannot be read ({error.strerror}); prepare the data again") from error
        weakref.finalize(self, _close, (self._text, self._index))
        self._check_counts()
        self.alignments = StoredAlignments.of(folder, len(self))
        """None where no corpus has them."""

    def _check_counts(self) -> None:
        """The files and the ranges must speak of the same number of pairs."""
        indexed = os.fstat(self._index).st_size / INDEX.itemsize
        stops = [0, *(corpus.stop for corpus in self.ranges)]
        joined = [corpus.start for corpus in self.ranges] == stops[:-1] and stops == sorted(stops)
        if not joined or not len(self.src_len) == len(self.tgt_len) == indexed == stops[-1]:
            raise CorruptFolder(f"{self.folder}: its files are of different data; delete it and prepare the data again")

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a store that `build_store` wrote; checks sizes only, see `verify`."""
        manifest = read_manifest(folder)
        for name, expected in manifest["files"].items():
            path = folder / name
            if not path.is_file() or path.stat().st_size != expected["size"]:
                raise CorruptFolder(f"{path}: is missing or has changed; delete {folder} and prepare the data again")
        if ABOUT_FILE not in manifest["files"]:
            raise CorruptFolder(f"{folder / MANIFEST}: is not the manifest of prepared data")
        about = read_record(folder / ABOUT_FILE, About, "the description of prepared data")
        return cls(folder, about, hashlib.sha256(json.dumps(manifest["files"], sort_keys=True).encode()).hexdigest())

    def verify(self) -> None:
        """Compare every byte with the manifest; raises CorruptFolder."""
        verify_folder(self.folder)

    def __len__(self) -> int:
        return len(self.src_len)

    @property
    def num_tokens(self) -> int:
        """Of both sides, end tokens included."""
        return int(self.src_len.sum()) + self.num_tgt_tokens

    @property
    def num_tgt_tokens(self) -> int:
        """Of the targets, end tokens included."""
        return int(self.tgt_len.sum())

    def read(self, indices: npt.NDArray[np.integer[Any]] | Sequence[int]) -> list[tuple[str, str]]:
        """The pairs `indices`, in that order."""
        texts = []
        for index in np.asarray(indices).tolist():
            if not 0 <= index < len(self):
                raise IndexError(f"pair {index} of {len(self)}")
            start, src, tgt = struct.unpack("<QII", self._pread(self._index, INDEX.itemsize, index * INDEX.itemsize))
            both = self._pread(self._text, src + tgt, start)
            texts.append((self._decoded(both[:src]), self._decoded(both[src:])))
        return texts

    def chunks(self, size: int = 4096) -> Iterator[list[tuple[str, str]]]:
        """All pairs in order, `size` at a time: two reads a chunk."""
        for first in range(0, len(self), size):
            count = min(size, len(self) - first)
            raw = self._pread(self._index, count * INDEX.itemsize, first * INDEX.itemsize)
            index = np.frombuffer(raw, dtype=INDEX)
            base, at = int(index["start"][0]), 0
            text = self._pread(self._text, int(index["src"].sum() + index["tgt"].sum()), base)
            pairs = []
            for src, tgt in zip(index["src"].tolist(), index["tgt"].tolist(), strict=True):
                pairs.append((self._decoded(text[at : at + src]), self._decoded(text[at + src : at + src + tgt])))
                at += src + tgt
            yield pairs

    def _pread(self, descriptor: int, size: int, offset: int) -> bytes:
        if offset + size > os.fstat(descriptor).st_size:
            raise CorruptFolder(f"{self.folder}: ends too early; delete it and prepare the data again")
        return os.pread(descriptor, size, offset)

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise CorruptFolder(f"{self.folder}: is damaged; delete it and prepare the data again") from error


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


@with_config(STRICT)
class About(TypedDict):
    """What `store.json` holds."""

    ranges: list[CorpusRange]
    limits: PairLimits
    report: StoreReport


def write_about(folder: Path, ranges: Sequence[CorpusRange], limits: PairLimits, report: StoreReport) -> None:
    about = {"ranges": ranges, "limits": asdict(limits), "report": asdict(report)}
    (folder / ABOUT_FILE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def tgt_frequencies(store: PairStore, tokenizer: Tokenizer) -> Float[Tensor, " V"]:
    """Counts over the targets of a store, END included."""
    counts = torch.zeros(len(tokenizer), dtype=torch.float64)
    for chunk in store.chunks():
        ids = list(chain.from_iterable(tokenizer.encode_batch([tgt for _, tgt in chunk])))
        counts += torch.bincount(torch.tensor(ids), minlength=len(counts))
        counts[tokenizer.special.eos] += len(chunk)
    return counts
