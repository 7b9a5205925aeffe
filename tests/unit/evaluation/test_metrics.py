"""Scores against brute force and against sacreBLEU's own calls."""

import random
from collections.abc import Sequence
from functools import lru_cache

import pytest
import sacrebleu

from qkv.evaluation.metrics import METRICS, edit_distance, group_by_source

OUTPUTS = [
    "the cat sat on the mat .",
    "a dog is barking at the moon",
    "two men are riding their bikes",
    "nothing to do with it",
]
ONE = [
    ["the cat sat on the mat ."],
    ["a dog barks at the bright moon"],
    ["two men ride bikes"],
    ["a woman is reading a book in the park"],
]
SEVERAL = [
    ["the cat is on the mat .", "a cat sat on the mat ."],
    ["a dog barks at the bright moon", "the dog is barking at the moon", "a dog is barking"],
    ["two men ride bikes"],
    ["a woman is reading a book in the park", "a book is read"],
]


def brute_force(a: Sequence[str], b: Sequence[str]) -> int:
    """The recursion that defines the distance."""

    @lru_cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        same = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(same, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(a), len(b))


def test_edit_distance_is_the_recursion() -> None:
    source = random.Random(0)
    for _ in range(300):
        a, b = (source.choices("abc", k=source.randint(0, 7)) for _ in range(2))
        assert edit_distance(a, b) == edit_distance(b, a) == brute_force(a, b)


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0), ("ab", "ba", 2), ("abc", "abc", 0)],
)
def test_edit_distance_of_known_words(a: str, b: str, distance: int) -> None:
    assert edit_distance(a, b) == distance


def test_the_distance_compares_tokens_and_not_letters() -> None:
    assert edit_distance(["AH0", "T"], ["AH1", "T"]) == 1


def test_token_errors_are_counted_to_the_closest_answer() -> None:
    """2 edits to an answer of 4 tokens, 0 to one of 2: 2 / 6; a far answer beside a close one changes nothing."""
    outputs = ["a b c", "x y"]
    assert METRICS["per"].score(outputs, [["a c d e", "q q q q q"], ["z", "x y"]]) == pytest.approx(100 * 3 / 6)
    assert METRICS["per"].score(["a b"], [["a c"]]) == 50
    assert METRICS["per"].score(["a b"], [["a c", "a b d"]]) == pytest.approx(50)


def test_errors_are_summed_before_they_are_divided() -> None:
    """One error in 10 tokens and one in 1 token are 2 / 11, not the mean of 10 % and 100 %."""
    long = " ".join("abcdefghij")
    assert METRICS["per"].score([long[:-1] + "x", "y"], [[long], ["z"]]) == pytest.approx(100 * 2 / 11)


def test_token_errors_may_exceed_a_hundred() -> None:
    assert METRICS["per"].score(["a b c"], [["x"]]) == 300
    assert METRICS["per"].score([""], [["x y"]]) == 100
    assert METRICS["per"].score(["   "], [[""]]) == 0


def test_a_word_is_right_if_it_equals_one_of_its_answers() -> None:
    outputs, answers = ["a b", "c", "d", "e"], [["x", "a b"], ["c"], ["D"], ["e ", "f"]]
    assert METRICS["wer"].score(outputs, answers) == 50
    assert METRICS["accuracy"].score(outputs, answers) == 50
    assert METRICS["wer"].score(["c"], [["c"]]) == 0
    assert METRICS["wer"].score(["a b", "c", "d"], answers[:3]) == pytest.approx(100 / 3)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_one_reference_is_sacrebleu(name: str) -> None:
    call = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}[name]
    wanted = call(OUTPUTS, [[answers[0] for answers in ONE]]).score
    assert METRICS[name].score(OUTPUTS, ONE) == wanted
    assert 10 < wanted < 90


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_different_numbers_of_references_are_sacrebleu(name: str) -> None:
    """Missing references are None to sacreBLEU; the order of an output's answers does not matter."""
    call = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}[name]
    streams = [[answers[i] if i < len(answers) else None for answers in SEVERAL] for i in range(3)]
    found = METRICS[name].score(OUTPUTS, SEVERAL)
    assert found == call(OUTPUTS, streams).score
    assert found == METRICS[name].score(OUTPUTS, [answers[::-1] for answers in SEVERAL])
    assert found != METRICS[name].score(OUTPUTS, [answers[:1] for answers in SEVERAL])


def test_bleu_is_of_the_corpus_and_not_a_mean() -> None:
    alone = [METRICS["bleu"].score([output], [answers]) for output, answers in zip(OUTPUTS, ONE, strict=True)]
    assert abs(METRICS["bleu"].score(OUTPUTS, ONE) - sum(alone) / len(alone)) > 1


@pytest.mark.parametrize("name", METRICS)
def test_the_right_answers_score_best(name: str) -> None:
    metric = METRICS[name]
    right, wrong = metric.score([answers[-1] for answers in SEVERAL], SEVERAL), metric.score(OUTPUTS, SEVERAL)
    assert right == pytest.approx(100.0 if metric.higher_is_better else 0.0)
    assert metric.better(right, wrong)
    assert not metric.better(wrong, right)
    assert not metric.better(right, right)
    assert metric.name == name


@pytest.mark.parametrize("name", ["accuracy", "wer", "per"])
def test_as_many_answers_as_outputs(name: str) -> None:
    with pytest.raises(ValueError, match="zip"):
        METRICS[name].score(["a", "b"], [["a"]])


def test_sources_are_grouped_with_all_of_their_answers() -> None:
    sources, answers = group_by_source(["b", "a", "b", "c", "b"], ["1", "2", "3", "4", "1"])
    assert sources == ["b", "a", "c"]
    assert answers == [["1", "3", "1"], ["2"], ["4"]]
    assert group_by_source([], []) == ([], [])


def test_sources_and_targets_are_as_many() -> None:
    with pytest.raises(ValueError, match="zip"):
        group_by_source(["a"], ["1", "2"])
