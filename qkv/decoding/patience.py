"""How long CTranslate2 searches for a sentence: it counts the hypotheses that ended, where we compare their scores.

Its search goes on until `patience` × `size` hypotheses have ended (Kasai 2022); 1 is `stop: enough`. With the longest
output as patience it never stops early, which gives what `stop: exact` gives. For `stop: heuristic` it waits for
3 × size hypotheses. Where the best of these are among the last ones, a better one may well follow: those sentences are
searched again, to their longest output.
"""

from collections.abc import Sequence

from qkv.decoding.beam import BeamConfig
from qkv.decoding.search import SearchConfig

LONG = 3.0
"""The first patience of `stop: heuristic`: room for the best hypotheses and `size` worse ones behind them."""
FEW = 3
"""So many of the best hypotheses must have ended before `size` others, even if fewer are wanted."""


def first_patience(search: SearchConfig, max_length: int) -> float:
    if isinstance(search, BeamConfig) and not counts(search):
        return min(LONG, max_length) if search.stop == "heuristic" else max_length
    return 1.0


def last_patience(search: SearchConfig, max_length: int) -> float:
    """Of a sentence for which the first one was too little."""
    return max_length if isinstance(search, BeamConfig) and not counts(search) else 1.0


def counts(beam: BeamConfig) -> bool:
    """Whether counting to `size` is our own rule, too; without penalties CTranslate2 stops as we do."""
    # A beam of one is greedy search, for both.
    return beam.stop == "enough" or beam.unpenalised or (beam.size == 1 and beam.stop == "heuristic")


def approximates(search: SearchConfig) -> bool:
    """Whether it may stop where our own search would not."""
    return isinstance(search, BeamConfig) and search.stop == "heuristic" and not counts(search)


def never_stops(patience: float, max_length: int) -> bool:
    """Before the last step fewer hypotheses have ended than such a patience asks for."""
    return patience >= max_length


def settled(lengths: Sequence[int], nbest: int, size: int) -> bool:
    """Whether `size` hypotheses ended after the best few. `lengths` are those of all that ended, best first.

    Where a good output is still to come, those that end before it become better and better with their length, so that
    the best ones are among the last.
    """
    last = max(lengths[: max(nbest, min(FEW, size))])
    return sum(length > last for length in lengths) >= size
