"""Corpora -> a `PairStore` folder, in one pass and bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qkv.core.errors import DataError
from qkv.core.files import new_folder
from qkv.data.alignments.pharaoh import Alignment, AlignmentLines
from qkv.data.alignments.stored import AlignmentWriter
from qkv.data.alignments.tokens import count_words
from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers import CorpusConfig, RawPair
from qkv.data.store import (
    INDEX,
    INDEX_FILE,
    LENGTH,
    SRC_LEN_FILE,
    TEXT_FILE,
    TGT_LEN_FILE,
    CorpusRange,
    PairLimits,
    StoreReport,
    write_about,
)
from qkv.text.folder import TokenizerPair

CountProgress = Callable[[int, int | None], None]
"""Called from time to time with (pairs done, total if known)."""
Keep = Callable[[RawPair], bool]
"""Which pairs belong to this part of a hold-out."""

CHUNK_PAIRS = 4096
CHUNK_CHARACTERS = 4_000_000


def build_store(
    folder: Path,
    corpora: Sequence[CorpusConfig],
    root: Path,
    invalid: Policy,
    limits: PairLimits,
    tokenizers: TokenizerPair,
    progress: CountProgress | None = None,
    keep: Keep | None = None,
    about: dict[str, Any] | None = None,
) -> StoreReport:
    """Stream the usable pairs of `corpora` into a new store at `folder`; `about` is added to its manifest.

    An existing store is replaced when the new one is complete. Raises DataError if there is no usable pair.
    """
    counts, ranges = ReadCounts(), []
    with new_folder(folder, {"kind": "pairs", **(about or {})}) as temporary:
        aligned = any(corpus.alignment_file for corpus in corpora)
        with _Writer(temporary, limits, tokenizers, aligned) as writer:
            for corpus in corpora:
                start, file = writer.kept, corpus.alignment_file
                alignments = None if file is None else AlignmentLines(root / file)
                for chunk in pair_chunks(writer.select(corpus.pairs_of(root, invalid, counts), keep)):
                    writer.add(chunk, alignments)
                    if progress is not None:
                        progress(counts.read, None)
                ranges.append(CorpusRange(start, writer.kept, corpus.weight))
        report = writer.report(counts)
        if report.kept == 0:
            names = ", ".join(corpus.describe(root) for corpus in corpora)
            raise DataError(f"{names}: 0 usable pairs ({'; '.join(report.lines())})")
        write_about(temporary, ranges, limits, report)
    return report


def pair_chunks(pairs: Iterable[RawPair]) -> Iterator[list[RawPair]]:
    """Lists of pairs, bounded in number and in characters."""
    chunk: list[RawPair] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair.src) + len(pair.tgt)
        if len(chunk) == CHUNK_PAIRS or characters > CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


@dataclass
class _Side:
    """Running totals of one side."""

    limit: int
    unknown_id: int
    tokens: int = 0
    unknown: int = 0

    def count(self, ids: Sequence[int]) -> None:
        self.tokens += len(ids) + 1
        self.unknown += ids.count(self.unknown_id)


class _Writer:
    """Appends usable pairs to the files of a store and counts the others."""

    def __init__(self, folder: Path, limits: PairLimits, tokenizers: TokenizerPair, aligned: bool) -> None:
        self.tokenizers = tokenizers
        self.src = _Side(limits.max_src, tokenizers.src.special.unk)
        self.tgt = _Side(limits.max_tgt, tokenizers.tgt.special.unk)
        self.kept = self.empty = self.too_long = self.held_out = self.position = 0
        self._stack = ExitStack()
        names = (TEXT_FILE, INDEX_FILE, SRC_LEN_FILE, TGT_LEN_FILE)
        self._text, self._index, self._src_len, self._tgt_len = (
            self._stack.enter_context((folder / name).open("wb")) for name in names
        )
        self._alignments = self._stack.enter_context(AlignmentWriter(folder)) if aligned else None

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def select(self, pairs: Iterable[RawPair], keep: Keep | None) -> Iterator[RawPair]:
        """The pairs of this part with two non-empty sides."""
        for pair in pairs:
            if not pair.src.strip() or not pair.tgt.strip():
                self.empty += 1
            elif keep is not None and not keep(pair):
                self.held_out += 1
            else:
                yield pair

    def add(self, pairs: list[RawPair], lines: AlignmentLines | None) -> None:
        src_ids = self.tokenizers.src.encode_batch([pair.src for pair in pairs])
        tgt_ids = self.tokenizers.tgt.encode_batch([pair.tgt for pair in pairs])
        texts: list[bytes] = []
        index, src_len, tgt_len, alignments = [], [], [], []
        for pair, src, tgt in zip(pairs, src_ids, tgt_ids, strict=True):
            if not self._usable(src, tgt):
                continue
            src_text, tgt_text = pair.src.encode(), pair.tgt.encode()
            index.append((self.position, len(src_text), len(tgt_text)))
            self.position += len(src_text) + len(tgt_text)
            texts += (src_text, tgt_text)
            src_len.append(len(src) + 1)
            tgt_len.append(len(tgt) + 1)
            alignments.append(self._aligned(src, tgt, lines.at(pair.line)) if lines else None)
        self.kept += len(index)
        self._text.write(b"".join(texts))
        self._index.write(np.array(index, dtype=INDEX).tobytes())
        self._src_len.write(np.array(src_len, dtype=LENGTH).tobytes())
        self._tgt_len.write(np.array(tgt_len, dtype=LENGTH).tobytes())
        if self._alignments:
            self._alignments.add(alignments)

    def _aligned(self, src: list[int], tgt: list[int], alignment: Alignment) -> Alignment:
        """The alignment, which must be of this pair."""
        alignment.check(count_words(self.tokenizers.src.tokens(src)), count_words(self.tokenizers.tgt.tokens(tgt)))
        return alignment

    def _usable(self, src: list[int], tgt: list[int]) -> bool:
        if not src or not tgt:
            self.empty += 1
            return False
        if len(src) >= self.src.limit or len(tgt) >= self.tgt.limit:
            self.too_long += 1
            return False
        self.src.count(src)
        self.tgt.count(tgt)
        return True

    def report(self, counts: ReadCounts) -> StoreReport:
        return StoreReport(
            read=counts.read,
            kept=self.kept,
            empty=self.empty,
            too_long=self.too_long,
            invalid=counts.invalid,
            held_out=self.held_out,
            replaced=counts.replaced,
            src_tokens=self.src.tokens,
            tgt_tokens=self.tgt.tokens,
            src_unknown=self.src.unknown,
            tgt_unknown=self.tgt.unknown,
        )
