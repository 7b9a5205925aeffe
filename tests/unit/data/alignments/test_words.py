"""Weights of tokens as weights of words."""

import numpy as np
import pytest

from qkv.data.alignments.words import word_alignment


def test_source_tokens_are_added_up_and_target_tokens_averaged() -> None:
    src, tgt = ["▁un", "known", "▁day", "</s>"], ["▁Tag", "▁un", "bekannt"]
    weights = np.array([[0.1, 0.2, 0.6, 0.1], [0.4, 0.4, 0.1, 0.1], [0.2, 0.1, 0.3, 0.4]])
    found = word_alignment(weights, src, tgt)
    assert (found.src_words, found.tgt_words) == (["unknown", "day"], ["Tag", "unbekannt"])
    assert found.weights == pytest.approx(np.array([[0.3, 0.6], [0.55, 0.2]]))
    assert found.links == {(1, 0), (0, 1)}


def test_the_ends_of_parts_are_no_words() -> None:
    found = word_alignment(np.eye(4), ["▁a", "</s>", "▁b", "</s>"], ["▁x", "▁y", "▁z", "▁w"])
    assert found.src_words == ["a", "b"]
    assert found.weights.tolist() == [[1, 0], [0, 0], [0, 1], [0, 0]]


def test_characters_and_a_space_are_words() -> None:
    found = word_alignment(np.eye(3, 4), ["a", "▁", "b", "</s>"], ["x", "y", "z"])
    assert found.src_words == ["a", "▁", "b"]
    assert found.links == {(0, 0), (1, 1), (2, 2)}


def test_an_empty_side_has_no_links() -> None:
    assert word_alignment(np.zeros((0, 2)), ["a", "</s>"], []).links == frozenset()
    assert word_alignment(np.zeros((1, 1)), ["</s>"], ["x"]).links == frozenset()
