"""The best candidates against a full sort."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.core.errors import QkvError
from qkv.search.hypothesis import BLOCKS, best_candidates, first_max


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([3, 7, BLOCKS, 2 * BLOCKS - 1, 2 * BLOCKS, 2 * BLOCKS + 1, 700]),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.5, 8.0]),
)
def test_it_is_the_front_of_a_stable_sort(
    seed: int, sentences: int, beams: int, vocab: int, count: int, grain: float
) -> None:
    """Also among equals, with -inf here and there, and with beams that do not exist."""
    torch.manual_seed(seed)
    scores = -3 * torch.randn(sentences, beams, vocab).abs() - 1
    scores = (scores / grain).round() * grain if grain else scores
    scores[torch.rand_like(scores) < 0.2] = -torch.inf
    totals = -np.random.default_rng(seed).integers(0, 4, (sentences, beams)).astype(np.float64) * 0.5 - 40
    totals[:, 1:][np.random.default_rng(seed + 1).random((sentences, beams - 1)) < 0.3] = -np.inf
    found = best_candidates(scores, scores * 2, totals, count)
    for sentence in range(sentences):
        everything = [
            (float(totals[sentence, beam]) + float(scores[sentence, beam, token]), beam, token)
            for beam in range(beams)
            for token in range(vocab)
        ]
        expected = sorted((each for each in everything if each[0] > -np.inf), key=lambda each: -each[0])[:count]
        assert [each[:3] for each in found[sentence]] == expected
        assert [each.log_prob for each in found[sentence]] == [
            2 * float(scores[sentence, beam, token]) for _, beam, token in expected
        ]


def test_first_of_equal_maxima() -> None:
    index, values = first_max(torch.tensor([[-3.0, -1.0, -1.0], [-2.0, -2.0, -2.0], [-torch.inf] * 3]))
    assert index == [1, 0, 0]
    assert values == [-1.0, -2.0, -torch.inf]


@pytest.mark.parametrize("vocab", [5, 500])
def test_nan_is_noticed(vocab: int) -> None:
    scores = torch.full((2, 3, vocab), -1.0)
    scores[1, 0] = torch.nan
    with pytest.raises(QkvError, match="not a number"):
        best_candidates(scores, scores, np.zeros((2, 3)), 2)
    with pytest.raises(QkvError, match="not a number"):
        first_max(scores[:, 0])
