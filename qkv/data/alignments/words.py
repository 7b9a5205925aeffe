"""Attention weights of tokens as weights and links of words."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.data.alignments.pharaoh import Link
from qkv.data.alignments.tokens import SPACE, words_of
from qkv.text.special import NAMES, SPECIAL

END = NAMES[SPECIAL.eos]
Weights = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class WordAlignment:
    """How much each target word looked at each source word, and the links that follow.

    Examples:
        >>> import numpy as np
        >>> from qkv.data.alignments.words import word_alignment
        >>> weights = np.array([[0.1, 0.8, 0.1], [0.6, 0.2, 0.2]])
        >>> found = word_alignment(weights, ["▁good", "▁day", "</s>"], ["▁Tag", "▁guter"])
        >>> found.src_words, sorted(found.links)
        (['good', 'day'], [(0, 1), (1, 0)])
    """

    src_words: list[str]
    tgt_words: list[str]
    weights: Weights
    """[target words, source words]; a row sums to one less what END got."""

    @cached_property
    def links(self) -> frozenset[Link]:
        """Each target word with the source word that it looked at most."""
        if not self.src_words:
            return frozenset()
        return frozenset((int(src), tgt) for tgt, src in enumerate(self.weights.argmax(axis=1)))


def word_alignment(
    weights: npt.NDArray[np.floating[Any]], src_tokens: Sequence[str], tgt_tokens: Sequence[str]
) -> WordAlignment:
    """Weights [target tokens, source tokens] to those of words.

    Weights are added up over the tokens of a source word, and are the mean over those of a target word. END is no word.
    """
    real = [place for place, token in enumerate(src_tokens) if token != END]
    src, tgt = [src_tokens[place] for place in real], list(tgt_tokens)
    from_src, to_tgt = _membership(words_of(src)), _membership(words_of(tgt))
    to_tgt = to_tgt / np.maximum(to_tgt.sum(axis=1, keepdims=True), 1)
    merged = to_tgt @ np.asarray(weights, dtype=np.float32).reshape(len(tgt), len(src_tokens))[:, real] @ from_src.T
    return WordAlignment(_joined(src), _joined(tgt), merged)


def _membership(words: list[int]) -> Weights:
    """[words, tokens], 1 where the token belongs to the word."""
    count = words[-1] + 1 if words else 0
    return np.equal.outer(np.arange(count), np.array(words, dtype=np.int64)).astype(np.float32)


def _joined(tokens: Sequence[str]) -> list[str]:
    """The words, without the mark of the space before them."""
    words = words_of(tokens)
    joined = [""] * (words[-1] + 1 if words else 0)
    for token, word in zip(tokens, words, strict=True):
        joined[word] += token
    return [word.removeprefix(SPACE) or word for word in joined]
