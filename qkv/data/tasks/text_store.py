"""Prepared texts on disk: a `PairStore` whose targets are empty. Texts that are too long are split."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from qkv.core.errors import DataError
from qkv.core.files import new_folder
from qkv.data.build import CountProgress, Keep, pair_chunks
from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers import CorpusConfig
from qkv.data.store import (
    INDEX,
    INDEX_FILE,
    LENGTH,
    SRC_LEN_FILE,
    TEXT_FILE,
    TGT_LEN_FILE,
    About,
    CorpusRange,
    PairLimits,
    PairStore,
    StoreReport,
    write_about,
)
from qkv.text.folder import TokenizerPair
from qkv.text.tokenizer import Tokenizer


class TextReport(StoreReport):
    """What became of the texts; a text that was split is kept as several."""

    def lines(self) -> list[str]:
        counts = [
            (self.empty, "dropped: empty"),
            (self.invalid, "dropped: invalid UTF-8"),
            (self.held_out, "left to the other part of the hold-out"),
            (self.replaced, "texts with invalid UTF-8 replaced by U+FFFD"),
            (self.too_long, "longer than data.max_tokens, so they were split"),
        ]
        heading = f"{self.kept:,} texts of {self.read:,} that were read, {self.src_tokens:,} tokens"
        return [heading] + [f"{number:,} {what}" for number, what in counts if number]


class TextStore(PairStore):
    """A prepared corpus of texts; `src_len` has their tokens, END included, and `tgt_len` those to be predicted.

    That is one fewer, END, for a piece of a text that continues behind it.
    """

    def __init__(self, folder: Path, about: About, fingerprint: str) -> None:
        super().__init__(folder, about, fingerprint)
        self.report = TextReport(**asdict(self.report))

    @property
    def num_tokens(self) -> int:
        return int(self.src_len.sum())

    @property
    def num_tgt_tokens(self) -> int:
        return int(self.tgt_len.sum())

    def texts(self, indices: Sequence[int]) -> list[str]:
        """These texts, in this order."""
        return [text for text, _ in self.read(indices)]

    def ends(self, indices: Sequence[int]) -> list[bool]:
        """Whether each of these is the end of its text, and not a piece that continues."""
        rows = list(indices)
        found: list[bool] = (self.tgt_len[rows] == self.src_len[rows]).tolist()
        return found


def split_text(text: str, tokenizer: Tokenizer, longest: int) -> list[str]:
    """Pieces of at most `longest` tokens that give the text when they are joined.

    Each is as long as it can be when it ends before a space, or anywhere where there is no space.
    """
    pieces = []
    while text:
        size = _fitting(text, tokenizer, longest)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def _fitting(text: str, tokenizer: Tokenizer, longest: int) -> int:
    """The characters of the first piece; at least one."""

    def fits(size: int) -> bool:
        return len(tokenizer.encode(text[:size])) <= longest

    low, high = 1, longest + 1
    while fits(high):
        if high >= len(text):
            return len(text)
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    space = text.rfind(" ", 1, low + 1)
    return space if space > 0 and fits(space) else low


def build_text_store(
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
    """Stream the texts of `corpora` into a new store at `folder`, as `build_store` does with pairs."""
    counts, ranges = ReadCounts(), []
    with new_folder(folder, {"kind": "texts", **(about or {})}) as temporary:
        with _TextWriter(temporary, limits, tokenizers.src) as writer:
            for corpus in corpora:
                start = writer.kept
                for chunk in pair_chunks(corpus.pairs_of(root, invalid, counts)):
                    texts = [pair.src for pair in chunk if keep is None or keep(pair)]
                    writer.held_out += len(chunk) - len(texts)
                    writer.add(texts)
                    if progress is not None:
                        progress(counts.read, None)
                ranges.append(CorpusRange(start, writer.kept, corpus.weight))
        report = writer.report(counts)
        if report.kept == 0:
            names = ", ".join(corpus.describe(root) for corpus in corpora)
            raise DataError(f"{names}: 0 usable texts ({'; '.join(report.lines())})")
        write_about(temporary, ranges, limits, report)
    return report


class _TextWriter:
    """Appends texts to the files of a store."""

    def __init__(self, folder: Path, limits: PairLimits, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.longest = tokenizer, limits.max_src - 1
        self.kept = self.empty = self.split = self.held_out = self.tokens = self.unknown = self.position = 0
        self._stack = ExitStack()
        names = (TEXT_FILE, INDEX_FILE, SRC_LEN_FILE, TGT_LEN_FILE)
        self._files = [self._stack.enter_context((folder / name).open("wb")) for name in names]

    def __enter__(self) -> "_TextWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, texts: Sequence[str]) -> None:
        split = list(self._pieces(texts))
        pieces = [piece for own in split for piece in own]
        continues = [number < len(own) for own in split for number in range(1, len(own) + 1)]
        ids = self.tokenizer.encode_batch(pieces)
        kept = [(piece.encode(), own, more) for piece, own, more in zip(pieces, ids, continues, strict=True) if own]
        self.empty += len(pieces) - len(kept)
        starts = np.cumsum([self.position, *(len(raw) for raw, _, _ in kept)])
        index = np.array([(start, len(raw), 0) for start, (raw, _, _) in zip(starts, kept, strict=False)], dtype=INDEX)
        lengths = np.array([len(own) + 1 for _, own, _ in kept], dtype=LENGTH)
        predicted = lengths - np.array([more for _, _, more in kept], dtype=LENGTH)
        self.position = int(starts[-1])
        self.kept += len(kept)
        self.tokens += int(lengths.sum())
        self.unknown += sum(own.count(self.tokenizer.special.unk) for _, own, _ in kept)
        content = (b"".join(raw for raw, _, _ in kept), index.tobytes(), lengths.tobytes(), predicted.tobytes())
        for file, part in zip(self._files, content, strict=True):
            file.write(part)

    def _pieces(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Each text, in pieces if it is too long."""
        filled = [text for text in texts if text.strip()]
        self.empty += len(texts) - len(filled)
        for text, ids in zip(filled, self.tokenizer.encode_batch(filled), strict=True):
            if len(ids) <= self.longest:
                yield [text]
            else:
                self.split += 1
                yield split_text(text, self.tokenizer, self.longest)

    def report(self, counts: ReadCounts) -> TextReport:
        return TextReport(
            read=counts.read,
            kept=self.kept,
            empty=self.empty,
            too_long=self.split,
            invalid=counts.invalid,
            held_out=self.held_out,
            replaced=counts.replaced,
            src_tokens=self.tokens,
            tgt_tokens=0,
            src_unknown=self.unknown,
            tgt_unknown=0,
        )
