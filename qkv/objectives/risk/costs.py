"""How bad an output is beside its reference, from 0; both are sequences of token ids."""

import math
from collections import Counter
from collections.abc import Sequence

Ids = Sequence[int]
LONGEST = 4
"""Tokens of the longest n-gram of BLEU."""


def bleu_cost(output: Ids, reference: Ids) -> float:
    """1 - BLEU of a sentence, with one added to the counts of all n-grams but single tokens (Lin and Och 2004)."""
    if not output or not reference:
        return float(list(output) != list(reference))
    logs = 0.0
    for n in range(1, LONGEST + 1):
        found, wanted = _ngrams(output, n), _ngrams(reference, n)
        more = int(n > 1)
        right = (found & wanted).total() + more
        if not right:
            return 1.0
        logs += math.log(right / (found.total() + more))
    brevity = min(0.0, 1 - len(reference) / len(output))
    return 1 - math.exp(brevity + logs / LONGEST)


def _ngrams(ids: Ids, n: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(ids[i : i + n]) for i in range(len(ids) - n + 1))


def wer_cost(output: Ids, reference: Ids) -> float:
    """The fewest insertions, deletions and substitutions of tokens, over the length of the reference (1 at least)."""
    row = list(range(len(reference) + 1))
    for i, said in enumerate(output, start=1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(reference, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (said != wanted))
    return row[-1] / max(len(reference), 1)
