"""Of several outputs the one that is most like a given text."""

from collections.abc import Callable, Sequence
from pathlib import Path

from qkv.data.texts import read_texts
from qkv.text import Tokenizer
from qkv.translate.output import Formatter, plain
from qkv.translate.translation import Translation

Similarity = Callable[[Sequence[str], Sequence[str]], float]
"""How like the tokens of an output are to those of a reference."""


def closest_to(references: Path, tokenizer: Tokenizer) -> Formatter:
    """Writes of the n-best of line n the one with the highest sentence BLEU against line n of `references`.

    Of equals the model's favourite. The words of this BLEU are the tokens of the model, so that it needs no rules of a
    language and sees the reference as the model would have written it: in lower case, say. Lines come in order.
    """
    numbered = enumerate(read_texts(references), start=1)
    similarity = sentence_bleu()

    def closest(number: int, translation: Translation) -> str:
        # Work that is taken up again begins in the middle.
        reference = next(text for line, text in numbered if line == number)
        tokens = tokenizer.tokens(tokenizer.encode(reference))
        each = [translation, *translation.alternatives]
        return plain(number, max(each, key=lambda one: similarity(one.tokens, tokens)))

    return closest


def sentence_bleu() -> Similarity:
    """sacreBLEU's sentence score of tokens as they are, up to the longest n-gram that an output has."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(effective_order=True, tokenize="none")

    def similarity(output: Sequence[str], reference: Sequence[str]) -> float:
        return float(scorer.sentence_score(_words(output), [_words(reference)]).score)

    return similarity


def _words(tokens: Sequence[str]) -> str:
    """Tokens with a space between them; one that is a space itself stays a word."""
    return " ".join(token.replace(" ", "\u2581") for token in tokens)
