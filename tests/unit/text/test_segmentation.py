"""BPE-dropout and unigram sampling against their definitions."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from random import Random

import pytest

from qkv.text.segmentation import MergeSampler, Ranks, Tosses, UnigramSampler, merge

RANKS = {("a", "b"): 0, ("b", "c"): 1, ("ab", "c"): 2, ("c", "a"): 3, ("abc", "abc"): 4, ("a", "a"): 5}
SCORES = {"a": -2.0, "b": -2.5, "c": -1.5, "ab": -2.2, "bc": -2.9, "abc": -3.0, "ca": -4.0}
UNKNOWN = -14.0


def slow_merge(word: str, ranks: Ranks, dropped: Callable[[], bool] = lambda: False) -> list[str]:
    """The paper's loop word for word: list all merges, drop some, apply the best, repeat."""
    pieces = list(word)
    while True:
        possible = [(ranks[pair], i) for i, pair in enumerate(pairwise(pieces)) if pair in ranks]
        survivors = [merge for merge in possible if not dropped()]
        if not survivors:
            return pieces
        _, i = min(survivors)
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]


def random_words(count: int, longest: int = 12) -> list[str]:
    random = Random(1)
    return ["".join(random.choices("abcx", k=random.randint(0, longest))) for _ in range(count)]


def cuts(word: str) -> Iterator[tuple[str, ...]]:
    """All ways to cut a word into known pieces and single characters."""
    if not word:
        yield ()
    for end in range(1, len(word) + 1):
        if word[:end] in SCORES or end == 1:
            for rest in cuts(word[end:]):
                yield (word[:end], *rest)


def chi_square(counts: Counter[tuple[str, ...]], probabilities: dict[tuple[str, ...], float]) -> float:
    """The statistic as a number of standard deviations above its mean (degrees of freedom n - 1, variance 2(n - 1))."""
    total = sum(counts.values())
    assert set(counts) <= set(probabilities)
    statistic = sum((counts[cut] - total * p) ** 2 / (total * p) for cut, p in probabilities.items())
    freedom = len(probabilities) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def test_merging_without_dropout_is_the_slow_loop() -> None:
    for word in random_words(500):
        assert merge(word, RANKS) == slow_merge(word, RANKS)


def test_equal_merges_go_left_to_right() -> None:
    assert merge("aaa", {("a", "a"): 0}) == ["aa", "a"]


def test_dropping_everything_leaves_characters() -> None:
    sampler = MergeSampler(RANKS, 1.0)
    for word in random_words(50):
        assert list(sampler([word], Random(0))) == list(word)


def test_sampled_pieces_join_to_the_words() -> None:
    words = random_words(300)
    for sampler in (MergeSampler(RANKS, 0.3), UnigramSampler(SCORES, UNKNOWN, 0.5)):
        assert "".join(sampler(words, Random(3))) == "".join(words)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_has_the_distribution_of_the_slow_loop(rate: float) -> None:
    """Two samples, one by the gaps between drops and one by the paper's loop, agree by chi-square."""
    random, trials = Random(5), 20_000
    sampler = MergeSampler(RANKS, rate)
    # Three words in one call, so that a gap reaches from one word into the next.
    fast = Counter(tuple(sampler(["abc", "x", "abcaab"], random)) for _ in range(trials))
    slow: Counter[tuple[str, ...]] = Counter()
    for _ in range(trials):
        cut = (slow_merge(word, RANKS, lambda: random.random() < rate) for word in ("abc", "x", "abcaab"))
        slow[tuple(chain.from_iterable(cut))] += 1
    common = [cut for cut in fast | slow if fast[cut] + slow[cut] >= 20]
    statistic = sum((fast[cut] - slow[cut]) ** 2 / (fast[cut] + slow[cut]) for cut in common)
    freedom = len(common) - 1
    assert (statistic - freedom) / math.sqrt(2 * freedom) < 4


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
def test_tosses_come_out_true_at_the_rate(rate: float) -> None:
    tosses, trials = Tosses(rate, Random(2)), 20_000
    mean = sum(tosses() for _ in range(trials)) / trials
    assert abs(mean - rate) <= 4 * math.sqrt(rate * (1 - rate) / trials)


def test_tossing_at_once_is_tossing_one_by_one() -> None:
    one, many = Tosses(0.2, Random(4)), Tosses(0.2, Random(4))
    for count in [1, 0, 3, 2, 7] * 100:
        if many.all_false(count):
            assert not any(one() for _ in range(count))
        else:
            expected = [one() for _ in range(count)]
            assert any(expected)
            assert [many() for _ in range(count)] == expected


@pytest.mark.parametrize("alpha", [0.2, 1.0])
@pytest.mark.parametrize("word", ["abcab", "abxca"])
def test_unigram_frequencies_match_the_exact_probabilities(word: str, alpha: float) -> None:
    weights = {cut: math.exp(alpha * sum(SCORES.get(piece, UNKNOWN) for piece in cut)) for cut in cuts(word)}
    total = sum(weights.values())
    sampler, random = UnigramSampler(SCORES, UNKNOWN, alpha), Random(6)
    counts = Counter(tuple(sampler([word], random)) for _ in range(20_000))
    assert chi_square(counts, {cut: weight / total for cut, weight in weights.items()}) < 4


def test_a_large_exponent_gives_the_most_probable_cut() -> None:
    sampler = UnigramSampler(SCORES, UNKNOWN, 1000.0)
    for word in random_words(100, longest=7):
        score = {cut: sum(SCORES.get(piece, UNKNOWN) for piece in cut) for cut in cuts(word)}
        assert score[tuple(sampler([word], Random(0)))] == pytest.approx(max(score.values()))


def test_a_very_long_word_does_not_underflow() -> None:
    word = "abc" * 5000
    assert "".join(UnigramSampler(SCORES, UNKNOWN, 1.0)([word], Random(0))) == word
    assert "".join(MergeSampler(RANKS, 0.1)([word], Random(0))) == word
