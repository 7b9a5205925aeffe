"""Jacobi iteration: the model drafts for itself, without training (Santilli 2023)."""

from collections.abc import Sequence
from typing import Literal

from qkv.models.saved.folder import SavedModel
from qkv.search.speculative.drafters.base import BlockLength, Checked, DrafterConfig, Drafts, DraftSources, drafters
from qkv.text.special import SPECIAL


@drafters.register
class JacobiConfig(DrafterConfig):
    """y_i <- argmax p(y | y_<i, X) for all tokens of a block in parallel, iterated; needs no training."""

    kind: Literal["jacobi"] = "jacobi"
    block: BlockLength = 4

    def build(self, saved: SavedModel) -> "Jacobi":
        return Jacobi()


class Jacobi:
    """After t passes at least the first t tokens of a block are final."""

    def begin(self, sources: DraftSources) -> Drafts:
        return JacobiDrafts(len(sources.src))


class JacobiDrafts:
    """The last pass's own tokens after its first mistake."""

    def __init__(self, sentences: int) -> None:
        self.open: list[list[int]] = [[] for _ in range(sentences)]

    def propose(self, sentence: int, kept: Sequence[int], count: int) -> Sequence[int]:
        guess = self.open[sentence]
        if SPECIAL.eos in guess:
            return guess[:count]
        # A block is always full: positions without a guess start with an arbitrary token.
        return [*guess, *[SPECIAL.unk] * count][:count]

    def learn(self, checked: Checked) -> None:
        for sentence, said, accepted in zip(checked.sentences, checked.said, checked.accepted, strict=True):
            self.open[sentence] = list(said[accepted + 1 :])
