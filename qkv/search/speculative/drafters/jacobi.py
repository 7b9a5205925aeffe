"""Jacobi iteration: the model guesses for itself, without any training (Santilli 2023)."""

from collections.abc import Sequence
from typing import Literal

from qkv.models.saved.folder import SavedModel
from qkv.search.speculative.drafters.base import BlockLength, Checked, DrafterConfig, Drafts, DraftSources, drafters
from qkv.text.special import SPECIAL


@drafters.register
class JacobiConfig(DrafterConfig):
    """y_i <- argmax p(y | y_<i, X) for all tokens of a block at once, again and again; needs no training."""

    kind: Literal["jacobi"] = "jacobi"
    block: BlockLength = 4

    def build(self, saved: SavedModel) -> "Jacobi":
        return Jacobi()


class Jacobi:
    """After t passes the first t tokens of a block are final, often more: what is still open was guessed by them."""

    def begin(self, sources: DraftSources) -> Drafts:
        return JacobiDrafts(len(sources.src))


class JacobiDrafts:
    """The last pass's own words after its first mistake."""

    def __init__(self, sentences: int) -> None:
        self.open: list[list[int]] = [[] for _ in range(sentences)]

    def propose(self, sentence: int, kept: Sequence[int], count: int) -> Sequence[int]:
        guess = self.open[sentence]
        if SPECIAL.eos in guess:
            return guess[:count]
        # A block is always full: what nobody has guessed yet begins as any token.
        return [*guess, *[SPECIAL.unk] * count][:count]

    def learn(self, checked: Checked) -> None:
        for sentence, said, accepted in zip(checked.sentences, checked.said, checked.accepted, strict=True):
            self.open[sentence] = list(said[accepted + 1 :])
