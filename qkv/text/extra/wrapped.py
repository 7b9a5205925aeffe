"""A tokenizer around another one, which changes some of what it does."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qkv.text.special import SpecialIds
from qkv.text.tokenizer import Tokenizer


class WrappedTokenizer:
    """Base class: everything as `inner` does it. Only `inner` is saved; the model says what is around it."""

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner
        self.special: SpecialIds = inner.special

    def __len__(self) -> int:
        return len(self.inner)

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
        return self.inner.decode(ids, unknowns)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return self.inner.tokens(ids)

    def save(self, folder: Path) -> None:
        self.inner.save(folder)

    def definition(self) -> dict[str, Any]:
        return self.inner.definition()
