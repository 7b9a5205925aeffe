"""A text that arrives in pieces, as token ids: each as soon as nothing that follows can change it."""

from qkv.core.errors import UsageError
from qkv.text.character import CharacterTokenizer
from qkv.text.tokenizer import Tokenizer


class IncrementalEncoder:
    """Characters are settled at once, other tokens with the white space that follows their word."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.text = ""
        self.ids: list[int] = []
        """What is settled so far."""

    def feed(self, piece: str) -> list[int]:
        """The ids that became certain with this piece."""
        self.text += piece
        if isinstance(self.tokenizer, CharacterTokenizer):
            return self._settle(self.text)
        words = self.text.rstrip()
        if len(words) == len(self.text):
            words = self.text[: -len(words.split()[-1])] if words else ""
        return self._settle(words)

    def finish(self) -> list[int]:
        """The ids that are left, once the text has ended."""
        return self._settle(self.text)

    def _settle(self, text: str) -> list[int]:
        ids, known = self.tokenizer.encode(text), len(self.ids)
        if ids[:known] != self.ids:
            raise UsageError(
                f"the text reads otherwise with what follows {text[:40]!r}; cut it between words, or between characters"
            )
        self.ids = ids
        return ids[known:]
