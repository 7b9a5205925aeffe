"""How long CTranslate2 searches for a sentence."""

import pytest

from qkv.engines.ctranslate2_engine import first_patience, last_patience, never_stops, settled
from qkv.search.base import SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig

PENALTY_0 = {"kind": "power", "alpha": 0.0}


@pytest.mark.parametrize(
    ("search", "first", "last"),
    [
        (GreedyConfig(), 1, 1),
        (BeamConfig(), 3, 20),
        (BeamConfig(stop="exact"), 20, 20),
        (BeamConfig(stop="enough"), 1, 1),
        (BeamConfig(length_penalty=PENALTY_0), 1, 1),
        (BeamConfig(length_penalty=PENALTY_0, stop="exact"), 1, 1),
        (BeamConfig(size=1), 1, 1),
    ],
    ids=str,
)
def test_each_rule_has_its_patience(search: SearchConfig, first: float, last: float) -> None:
    assert (first_patience(search, 20), last_patience(search, 20)) == (first, last)
    assert never_stops(last, 20) is (last == 20)


def test_a_short_limit_is_patience_enough() -> None:
    assert first_patience(BeamConfig(), 2) == 2
    assert never_stops(2, 2)


def test_the_best_ones_must_be_followed_by_others() -> None:
    """Best first: three that ended after 4, 5 and 6 steps, and then longer ones or shorter ones."""
    assert settled([4, 5, 6, 7, 7, 8, 8, 9], nbest=1, size=5)
    assert not settled([4, 5, 6, 7, 7, 8, 8, 6], nbest=1, size=5)
    assert not settled([9, 8, 7, 6, 5, 4, 3, 2], nbest=1, size=5)
    assert not settled([4, 5, 6, 8, 7, 7, 8, 9], nbest=4, size=5), "the fourth is wanted, and only one follows it"
    assert settled([4, 5, 6, 7, 7], nbest=1, size=2), "no more than `size` of them must be early"
