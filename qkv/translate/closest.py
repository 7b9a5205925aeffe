"""Chooses the output that is closest to a reference."""

from collections.abc import Callable, Sequence
from pathlib import Path

from qkv.data.texts import read_texts
from qkv.text import Tokenizer
from qkv.translate.output import Formatter, Translation, plain

Similarity = Callable[[Sequence[str], Sequence[str]], float]
"""The similarity of an output's tokens to those of a reference."""


def closest_to(references: Path, tokenizer: Tokenizer) -> Formatter:
    """Formats the n-best output of line n that has the highest sentence BLEU against line n of `references`.

    Ties go to the model's best. BLEU is computed on the model's tokens, so that it needs no rules of a language and
    sees the reference as the model would have written it, lower-cased for example. Lines come in order.
    """
    numbered = enumerate(read_texts(references), start=1)
    similarity = sentence_bleu()

    def closest(number: int, translation: Translation) -> str:
        # Resumed work starts in the middle.
        reference = next(text for line, text in numbered if line == number)
        tokens = tokenizer.tokens(tokenizer.encode(reference))
        each = [translation, *translation.alternatives]
        return plain(number, max(each, key=lambda one: similarity(one.tokens, tokens)))

    return closest


def sentence_bleu() -> Similarity:
    """sacreBLEU's sentence score of given tokens, up to the longest n-gram that the output has."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(effective_order=True, tokenize="none")

    def similarity(output: Sequence[str], reference: Sequence[str]) -> float:
        return float(scorer.sentence_score(_words(output), [_words(reference)]).score)

    return similarity


def _words(tokens: Sequence[str]) -> str:
    """Tokens joined by spaces; a token that is a space stays a word."""
    return " ".join(token.replace(" ", "\u2581") for token in tokens)
