"""`kind: jsonl`: a JSON object a line."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from qkv.core.errors import DataError
from qkv.data.lines import Policy, ReadCounts, decode
from qkv.data.readers.base import OneFileCorpus, corpora, decoded_lines


@corpora.register
class JsonLinesCorpus(OneFileCorpus):
    """A JSON object a line, as in {"src": "good morning", "tgt": "guten Morgen"}."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "pairs.jsonl"}

    kind: Literal["jsonl"] = "jsonl"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    src: str = "src"
    """Key of the source."""
    tgt: str = "tgt"
    """Key of the target."""

    def records(self, path: Path, invalid: Policy, counts: ReadCounts) -> Iterator[tuple[int, tuple[str, str] | None]]:
        for line, text in decoded_lines(path, invalid, counts):
            yield line, None if text is None else self._sides(text, path, line, invalid, counts)

    def _sides(self, text: str, path: Path, line: int, invalid: Policy, counts: ReadCounts) -> tuple[str, str] | None:
        if not text.strip():
            return "", ""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{line}: is not JSON ({error}); write one JSON object a line") from error
        sides = []
        for key in (self.src, self.tgt):
            value = string_at(record, key, path, line)
            # JSON can spell lone surrogates and NUL, which no UTF-8 file can hold: same policy for both.
            sides.append(decode(value.encode("utf-8", "surrogatepass"), path, line, invalid, counts))
        src, tgt = sides
        return None if src is None or tgt is None else (src, tgt)


def string_at(record: Any, key: str, path: Path | str, line: int) -> str:
    """The text under `key` of a JSON object; raises DataError."""
    if not isinstance(record, dict):
        raise DataError(f"{path}:{line}: is not a JSON object; write one object with the key {key!r} a line")
    if key not in record:
        there = ", ".join(repr(name) for name in record) or "none"
        raise DataError(f"{path}:{line}: has no key {key!r}; its keys are {there}")
    value = record[key]
    if not isinstance(value, str):
        raise DataError(f"{path}:{line}: the value of {key!r} is not a string; write it in quotes")
    return value
