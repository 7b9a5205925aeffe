"""A tokenizer with sentinels behind its vocabulary, which stand for spans of a text (Raffel et al. 2020)."""

from collections.abc import Sequence
from typing import Any

from qkv.text.extra.wrapped import WrappedTokenizer
from qkv.text.tokenizer import Tokenizer


class SentinelTokenizer(WrappedTokenizer):
    """The pieces of `inner`, and after them `count` sentinels, which no text can produce."""

    def __init__(self, inner: Tokenizer, count: int) -> None:
        super().__init__(inner)
        self.count = count
        self.sentinels = list(range(len(inner), len(inner) + count))
        """Their ids, the first one first."""

    def __len__(self) -> int:
        return len(self.inner) + self.count

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        """Sentinels are left out."""
        return self.inner.decode([i for i in ids if i < len(self.inner)], unknowns)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        size = len(self.inner)
        return [f"<extra_id_{i - size}>" if i >= size else self.inner.tokens([i])[0] for i in ids]

    def definition(self) -> dict[str, Any]:
        return {**self.inner.definition(), "sentinels": self.count}
