"""Unknown pieces of a source as ids of their own, so that a model can copy them.

The unknown piece at position s of a source has the id V + s, with V the size of the vocabulary; a piece that occurs
several times has the id of its first place. An unknown piece of the target has the id of the same piece in the source,
or stays unk. The ids mean something for this source only.
"""

from collections.abc import Sequence

from qkv.text.folder import TokenizerPair
from qkv.text.special import UNKNOWN_MARK
from qkv.text.tokenizer import Tokenizer


class SourceTokenizer:
    """A tokenizer that knows the unknown pieces of one source.

    Args:
        tokenizer: That of both sides.
        src: The source.
        src_ids: Its ids as the model reads them: they may be cut, or sampled.
    """

    def __init__(self, tokenizer: Tokenizer, src: str, src_ids: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self._ids: dict[str, int] = {}
        unknown = [place for place, i in enumerate(src_ids) if i == tokenizer.special.unk or i >= len(tokenizer)]
        for place, piece in zip(unknown, tokenizer.unknowns(src) if unknown else [], strict=False):
            self._ids.setdefault(piece, len(tokenizer) + place)
        self._pieces = {i: piece for piece, i in self._ids.items()}

    def encode(self, text: str) -> list[int]:
        return self.extended(text, self.tokenizer.encode(text))

    def extended(self, text: str, ids: Sequence[int]) -> list[int]:
        """The ids of a text, with those of the source's unknown pieces in the place of unk."""
        unk, unknowns = self.tokenizer.special.unk, iter(self.tokenizer.unknowns(text))
        return [self._ids.get(next(unknowns, ""), unk) if i == unk else i for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        unk = self.tokenizer.special.unk
        unknowns = [self._pieces.get(i, UNKNOWN_MARK) for i in ids if i == unk or i in self._pieces]
        return self.tokenizer.decode([unk if i in self._pieces else i for i in ids], unknowns)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        shown = self.tokenizer.tokens([self.tokenizer.special.unk if i in self._pieces else i for i in ids])
        return [
            self._pieces[i].replace(" ", "▁") if i in self._pieces else token
            for i, token in zip(ids, shown, strict=True)
        ]


class CopyingTokenizers(TokenizerPair):
    """The tokenizers of a model that copies: both sides share one, and unknown pieces of a source have ids."""

    def linked(self, src: str, tgt: str, src_ids: list[int], tgt_ids: list[int]) -> tuple[list[int], list[int]]:
        unk = self.src.special.unk
        if unk not in src_ids:
            return src_ids, tgt_ids
        own = self.output_of(src, src_ids)
        return own.extended(src, src_ids), own.extended(tgt, tgt_ids) if unk in tgt_ids else tgt_ids

    def output_of(self, src: str, src_ids: Sequence[int]) -> SourceTokenizer:
        return SourceTokenizer(self.src, src, src_ids)
