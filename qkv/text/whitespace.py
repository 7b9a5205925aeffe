"""`kind: whitespace`: the words between white space are the tokens."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from qkv.text.special import NAMES
from qkv.text.tokenizer import TokenizerConfig, tokenizers
from qkv.text.vocabulary import VocabularyTokenizer


@tokenizers.register
class WhitespaceConfig(TokenizerConfig):
    """Text that is already cut, such as phonemes or a tokenized corpus: tokens are separated by white space."""

    kind: Literal["whitespace"] = "whitespace"
    min_count: int = Field(default=1, ge=1)
    """A word seen less often in the training text is unknown."""
    max_size: int | None = Field(default=None, gt=len(NAMES))
    """The largest vocabulary, the five special ids included; the most frequent words stay."""

    def train(self, texts: Iterable[str]) -> "WhitespaceTokenizer":
        return WhitespaceTokenizer.learn(texts, self.normalize, self.min_count, self.max_size)

    def load(self, folder: Path) -> "WhitespaceTokenizer":
        return WhitespaceTokenizer.load(folder, self.normalize)


class WhitespaceTokenizer(VocabularyTokenizer):
    """Normal form: the `normalize` settings, then white space always collapsed and stripped, even with `keep`."""

    kind = "whitespace"

    @classmethod
    def split(cls, text: str) -> Sequence[str]:
        return text.split()

    @classmethod
    def join(cls, pieces: Iterable[str]) -> str:
        return " ".join(pieces)
