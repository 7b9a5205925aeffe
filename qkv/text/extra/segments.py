"""A tokenizer for two texts in one, such as a question and an answer: </s> stands between them (Devlin et al. 2019)."""

import random
from collections.abc import Sequence

from qkv.text.extra.wrapped import WrappedTokenizer
from qkv.text.tokenizer import Tokenizer


class SegmentTokenizer(WrappedTokenizer):
    """Each part of a text by itself, with </s> in the place of `separator`."""

    def __init__(self, inner: Tokenizer, separator: str) -> None:
        super().__init__(inner)
        self.separator = separator

    def encode(self, text: str) -> list[int]:
        return self._joined([self.inner.encode(part) for part in text.split(self.separator)])

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        parts = [text.split(self.separator) for text in texts]
        found = iter(self.inner.encode_batch([part for own in parts for part in own]))
        return [self._joined([next(found) for _ in own]) for own in parts]

    def sample(self, text: str, random: random.Random) -> list[int]:
        return self._joined([self.inner.sample(part, random) for part in text.split(self.separator)])

    def unknowns(self, text: str) -> list[str]:
        return [piece for part in text.split(self.separator) for piece in self.inner.unknowns(part)]

    def normalize(self, text: str) -> str:
        """What `decode` gives back, without the separator."""
        return self.inner.decode(self.encode(text), self.unknowns(text))

    def _joined(self, parts: Sequence[list[int]]) -> list[int]:
        return [i for number, own in enumerate(parts) for i in ([self.special.eos] if number else []) + own]


def segmented(inner: Tokenizer, separator: str | None) -> Tokenizer:
    """With the separator, if there is one."""
    return inner if separator is None else SegmentTokenizer(inner, separator)
