"""Chooses default metrics by what the references look like."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.text.normalize import mostly_unspaced

MOSTLY = 0.9
LONGEST_PHONEME = 3
"""Letters of a phoneme, marks not counted: AH0, tʃː."""
MOST_SYMBOLS, TIMES_EACH = 100, 10
"""Sequences over at most so many symbols, each seen this often on average, are no language."""


@dataclass(frozen=True)
class DefaultMetrics:
    """The metrics for a task, and what the task was taken for."""

    names: list[str]
    why: str


PRONUNCIATIONS = DefaultMetrics(["g2p_wer", "per"], "pronunciations")
WORDS = DefaultMetrics(["exact", "cer"], "single words")
SYMBOLS = DefaultMetrics(["exact", "wer"], "sequences of few different symbols")
UNSPACED = DefaultMetrics(["chrf", "cer"], "text without spaces between words")
SENTENCES = DefaultMetrics(["bleu", "chrf", "ter"], "sentences")


def default_metrics(
    references: Sequence[Sequence[str]], sources: Sequence[str] | None = None, language: str | None = None
) -> DefaultMetrics:
    """The metrics to use if none are given. `language`, that of the references, adds bleu_tok_lc for sentences."""
    found = _task([answers[0] for answers in references], sources)
    if found is SENTENCES and language is not None:
        return DefaultMetrics([*found.names, "bleu_tok_lc"], found.why)
    return found


def _task(answers: Sequence[str], sources: Sequence[str] | None) -> DefaultMetrics:
    tokens = Counter(token for answer in answers for token in answer.split())
    several = sum(len(answer.split()) > 1 for answer in answers)
    if mostly_unspaced(answers):
        return UNSPACED
    if several < (1 - MOSTLY) * len(answers):
        return WORDS
    of_words = sources is None or sum(len(source.split()) == 1 for source in sources) > MOSTLY * len(sources)
    if of_words and sum(times for token, times in tokens.items() if _is_short(token)) > MOSTLY * tokens.total():
        return PRONUNCIATIONS
    if len(tokens) <= MOST_SYMBOLS and tokens.total() >= TIMES_EACH * len(tokens):
        return SYMBOLS
    return SENTENCES


def _is_short(token: str) -> bool:
    # Marks of length and stress and the ties of affricates are no letters of their own.
    letters = [char for char in token if unicodedata.category(char)[0] not in ("M", "S") and char not in "ːˑˈˌʰʲʷ"]
    return 0 < len(letters) <= LONGEST_PHONEME
