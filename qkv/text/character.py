"""`kind: char`: each character is a token."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from qkv.text.special import NAMES
from qkv.text.tokenizer import TokenizerConfig, tokenizers
from qkv.text.vocabulary import VocabularyTokenizer


@tokenizers.register
class CharacterConfig(TokenizerConfig):
    """Each Unicode character is a token, the space too; for spelling, sounds and small toys."""

    kind: Literal["char"] = "char"
    min_count: int = Field(default=1, ge=1)
    """A character seen less often in the training text is unknown."""
    max_size: int | None = Field(default=None, gt=len(NAMES))
    """The largest vocabulary, the five special ids included; the most frequent characters stay."""

    def train(self, texts: Iterable[str]) -> "CharacterTokenizer":
        return CharacterTokenizer.learn(texts, self.normalize, self.min_count, self.max_size)

    def load(self, folder: Path) -> "CharacterTokenizer":
        return CharacterTokenizer.load(folder, self.normalize)


class CharacterTokenizer(VocabularyTokenizer):
    """Normal form: what the `normalize` settings give, nothing more."""

    kind = "char"

    @classmethod
    def split(cls, text: str) -> Sequence[str]:
        return text

    @classmethod
    def join(cls, pieces: Iterable[str]) -> str:
        return "".join(pieces)
