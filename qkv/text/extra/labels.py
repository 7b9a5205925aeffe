"""`kind: labels`: a whole text is one token, such as the label of a text."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from qkv.text.tokenizer import TokenizerConfig, tokenizers
from qkv.text.vocabulary import VocabularyTokenizer


@tokenizers.register
class LabelsConfig(TokenizerConfig):
    """Each text is one token, whatever is in it: the labels of texts or images."""

    kind: Literal["labels"] = "labels"

    def train(self, texts: Iterable[str]) -> "LabelTokenizer":
        return LabelTokenizer.learn(texts, self.normalize, 1, None)

    def load(self, folder: Path) -> "LabelTokenizer":
        return LabelTokenizer.load(folder, self.normalize)


class LabelTokenizer(VocabularyTokenizer):
    """Normal form: what the `normalize` settings give, nothing more."""

    kind = "labels"

    @classmethod
    def split(cls, text: str) -> Sequence[str]:
        return [text] if text else []

    @classmethod
    def join(cls, pieces: Iterable[str]) -> str:
        return "".join(pieces)
