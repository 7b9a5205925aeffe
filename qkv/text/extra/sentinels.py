"""A tokenizer with sentinels behind its vocabulary, which stand for spans of a text (Raffel et al. 2020)."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qkv.text.special import SpecialIds
from qkv.text.tokenizer import Tokenizer


class SentinelTokenizer:
    """The pieces of `inner`, and after them `count` sentinels, which no text can produce."""

    def __init__(self, inner: Tokenizer, count: int) -> None:
        self.inner, self.count = inner, count
        self.special: SpecialIds = inner.special
        self.sentinels = list(range(len(inner), len(inner) + count))
        """Their ids, the first one first."""

    def __len__(self) -> int:
        return len(self.inner) + self.count

    def normalize(self, text: str) -> str:
        return self.inner.normalize(text)

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self.inner.encode_batch(texts)

    def sample(self, text: str, random: random.Random) -> list[int]:
        return self.inner.sample(text, random)

    def unknowns(self, text: str) -> list[str]:
        return self.inner.unknowns(text)

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        """Sentinels are left out."""
        return self.inner.decode([i for i in ids if i < len(self.inner)], unknowns)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        size = len(self.inner)
        return [f"<extra_id_{i - size}>" if i >= size else self.inner.tokens([i])[0] for i in ids]

    def save(self, folder: Path) -> None:
        """Only the inner one: the model says how many sentinels there are."""
        self.inner.save(folder)

    def definition(self) -> dict[str, Any]:
        return {**self.inner.definition(), "sentinels": self.count}
