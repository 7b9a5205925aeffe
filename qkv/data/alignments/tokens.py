"""Links of words as links of tokens.

A word is what stands between spaces, however many subwords it is cut into. With a tokenizer that cuts no words, such as
`char` or `whitespace`, each token is a word.
"""

from collections.abc import Collection, Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from qkv.data.alignments.pharaoh import Alignment, Link

SPACE = "▁"


def words_of(tokens: Sequence[str]) -> list[int]:
    """The number of the word that each token belongs to; tokens are shown with `▁` for a space.

    Subwords begin with it at the start of a word, and so does the first of all.
    """
    if not tokens or not tokens[0].startswith(SPACE):
        return list(range(len(tokens)))
    return [begun - 1 for begun in accumulate(int(token.startswith(SPACE)) for token in tokens)]


def count_words(tokens: Sequence[str]) -> int:
    """How many words these tokens are."""
    return words_of(tokens)[-1] + 1 if tokens else 0


def alignment_matrices(
    alignments: Sequence[Alignment],
    src_tokens: Sequence[Sequence[str]],
    tgt_tokens: Sequence[Sequence[str]],
    shape: tuple[int, int],
) -> Tensor:
    """[B, T, S] with (T, S) = `shape`: the row of a target token is spread evenly over the tokens it is linked to.

    A token whose word has no link, END and padding have rows of zeros.
    """
    matrices = np.zeros((len(alignments), *shape), dtype=np.float32)
    for matrix, alignment, src, tgt in zip(matrices, alignments, src_tokens, tgt_tokens, strict=True):
        matrix[: len(tgt), : len(src)] = _token_links(alignment.sure, words_of(src), words_of(tgt))
    return torch.from_numpy(matrices / np.maximum(matrices.sum(axis=-1, keepdims=True), 1))


def _token_links(links: Collection[Link], src_words: list[int], tgt_words: list[int]) -> np.ndarray:
    """[target tokens, source tokens], 1 where their words are linked."""
    linked = np.zeros((tgt_words[-1] + 1, src_words[-1] + 1), dtype=np.float32)
    for src, tgt in links:
        linked[tgt, src] = 1
    return linked[np.ix_(tgt_words, src_words)]
