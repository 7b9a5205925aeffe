"""Corpora of texts without a target, for language models: `kind: lines`, `documents` or `jsonl`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from qkv.config.base import Kinds
from qkv.core.errors import DataError
from qkv.data.lines import Policy, ReadCounts, decode
from qkv.data.readers.base import CorpusConfig, RawPair, decoded_lines, require_some
from qkv.data.readers.jsonl import string_at


class TextsCorpus(CorpusConfig):
    """A source of texts. A text is read as a pair of itself."""

    path: Path
    """The file; it may be compressed by gzip or zstandard."""

    def files(self) -> dict[str, Path]:
        return {"path": self.path}

    def read(self, root: Path, invalid: Policy, counts: ReadCounts) -> Iterator[RawPair]:
        path, texts = root / self.path, 0
        for line, text in self.texts(path, invalid, counts):
            texts += 1
            counts.read += 1
            if text is None:
                counts.invalid += 1
            else:
                yield RawPair(text, text, line)
        require_some(texts, path, "text")

    def texts(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, str | None]]:
        """The texts with the line where each begins; None for one that is invalid and to be skipped."""
        raise NotImplementedError


text_corpora = Kinds[TextsCorpus]("text corpus", default="lines")


@text_corpora.register
class LinesCorpus(TextsCorpus):
    """Each line is a text."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "texts.txt"}

    kind: Literal["lines"] = "lines"

    def texts(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, str | None]]:
        return decoded_lines(path, invalid, counts)


@text_corpora.register
class DocumentsCorpus(TextsCorpus):
    """Texts of several lines, with an empty line between two of them."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "documents.txt"}

    kind: Literal["documents"] = "documents"

    def texts(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, str | None]]:
        first, lines = 1, list[str | None]()
        for number, line in decoded_lines(path, invalid, counts):
            if line is None or line.strip():
                first = first if lines else number
                lines.append(line)
            elif lines:
                yield first, _document(lines)
                lines = []
        if lines:
            yield first, _document(lines)


def _document(lines: list[str | None]) -> str | None:
    """None if a line of it is invalid."""
    valid = [line for line in lines if line is not None]
    return "\n".join(valid) if len(valid) == len(lines) else None


@text_corpora.register
class JsonTextsCorpus(TextsCorpus):
    """A JSON object a line, as in {"text": "It was a bright cold day in April."}."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "texts.jsonl"}

    kind: Literal["jsonl"] = "jsonl"
    text: str = "text"
    """Key of the text."""

    def texts(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, str | None]]:
        for line, raw in decoded_lines(path, invalid, counts):
            if raw is None or not raw.strip():
                yield line, raw
                continue
            try:
                record = json.loads(raw)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}:{line}: is not JSON ({error}); write one JSON object a line") from error
            value = string_at(record, self.text, path, line)
            yield line, decode(value.encode("utf-8", "surrogatepass"), path, line, invalid, counts)


AnyTexts = Annotated[TextsCorpus, text_corpora]
