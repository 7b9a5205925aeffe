"""Sampling: the right frequencies, the right cuts, and random numbers that belong to the sentence."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from qkv.core.errors import UsageError
from qkv.search.base import LengthLimits
from qkv.search.greedy import GreedyConfig
from qkv.search.sampling import SampleConfig, SampleSearch, likeliest, quantile
from tests.support.tables import END, Ids, TableSteps, every_output, random_sources, random_table, run_search, task_of

SOURCES = random_sources(10, 3)


def outputs(search: SampleConfig, sources: list[list[int]], longest: int, seed: int = 1) -> list[list[list[int]]]:
    """The drawn samples of each sentence, in the order of their numbers."""
    table = random_table(seed, 9, end=0.5)
    found = SampleSearch(*search.sampling).draw(TableSteps(table), task_of(sources, LengthLimits(longest)))
    return [[sample.tokens for sample in samples] for samples in found]


def chi_square(observed: Counter[Ids], expected: dict[Ids, float]) -> tuple[float, int]:
    """Pearson's statistic over the outcomes expected at least five times, and the degrees of freedom."""
    total = sum(observed.values())
    assert set(observed) <= set(expected)
    common = {key: total * share for key, share in expected.items() if total * share >= 5}
    rest, seen = total - sum(common.values()), total - sum(observed[key] for key in common)
    value = sum((observed[key] - count) ** 2 / count for key, count in common.items())
    return value + ((seen - rest) ** 2 / rest if rest >= 5 else 0.0), len(common)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 0, 1.0), (1.0, 3, 1.0), (1.5, 4, 0.7)]
)
def test_outputs_come_as_often_as_they_are_probable(temperature: float, top_k: int, top_p: float) -> None:
    """4,000 samples of up to two tokens against the probability of every output, worked out by hand."""
    search = SampleConfig(samples=4000, temperature=temperature, top_k=top_k, top_p=top_p)
    (samples,) = outputs(search, [[5, 8, END]], 2)
    plain = random_table(1, 9, end=0.5)

    def cut(source: Ids, said: Ids) -> list[float]:
        order = sorted(range(9), key=lambda token: -plain(source, said)[token])[: top_k or None]
        weights = {token: math.exp(plain(source, said)[token] / temperature) for token in order}
        total, reached, kept = sum(weights.values()), 0.0, {}
        for token in order:
            kept[token] = weights[token]
            reached += weights[token] / total
            if reached >= top_p:
                break
        return [math.log(kept[token] / sum(kept.values())) if kept.get(token) else -math.inf for token in range(9)]

    expected = {each.tokens: math.exp(each.total) for each in every_output(cut, (5, 8, END), 9, 2)}
    expected = {tokens: share for tokens, share in expected.items() if share}
    assert sum(expected.values()) == pytest.approx(1)
    value, freedom = chi_square(Counter(map(tuple, samples)), expected)
    assert value < freedom + 4 * math.sqrt(2 * freedom)
    assert freedom >= 3


def test_scores_are_log_probabilities_without_temperature() -> None:
    table = random_table(1, 9)
    search = SampleConfig(samples=5, temperature=3.0)
    (found,) = run_search(search, TableSteps(table), task_of([[5, END]], LengthLimits(4), nbest=5))
    for each in found:
        said = (*each.tokens, END) if each.ended else tuple(each.tokens)
        assert each.token_scores == [table((5, END), said[:place])[token] for place, token in enumerate(said)]
        assert each.score == pytest.approx(sum(each.token_scores))


def test_the_best_samples_come_first() -> None:
    search = SampleConfig(samples=20)
    task = task_of(SOURCES, LengthLimits(4), nbest=6)
    for hypotheses, drawn in zip(
        run_search(search, TableSteps(random_table(1, 9)), task),
        SampleSearch(*search.sampling).draw(TableSteps(random_table(1, 9)), task),
        strict=True,
    ):
        assert [each.score for each in hypotheses] == sorted((each.score for each in drawn), reverse=True)[:6]


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 0.001}])
def test_cut_down_to_one_token_it_is_greedy_search(settings: dict[str, float]) -> None:
    """Also among equals."""
    for grain in (0.0, 0.5):
        table, task = random_table(2, 9, grain=grain), task_of(SOURCES, LengthLimits(5))
        if grain and "temperature" in settings:
            continue
        assert run_search(SampleConfig(**settings), TableSteps(table), task) == run_search(
            GreedyConfig(), TableSteps(table), task
        )


def test_the_seed_the_source_and_the_number_decide() -> None:
    search = SampleConfig(samples=6)
    both = [[5, 6, END], [7, END]]
    first, second = outputs(search, both, 6)
    assert outputs(search, both[::-1], 6) == [second, first]
    assert outputs(search, [both[0]], 6) == [first]
    assert outputs(SampleConfig(samples=2), [both[0]], 6) == [first[:2]]
    assert outputs(SampleConfig(samples=6, seed=1), [both[0]], 6) != [first]
    assert len({tuple(tokens) for tokens in first}) > 2
    assert outputs(search, [both[0], both[0]], 6) == [first, first]


def test_sentences_do_not_share_their_chances() -> None:
    """A model that does not look at the source still says something else for another one."""
    table = random_table(1, 20)
    search = SampleConfig(samples=4)
    steps = TableSteps(lambda source, said: table((), said))
    first, second = SampleSearch(*search.sampling).draw(steps, task_of([[5, END], [6, END]], LengthLimits(6, 6)))
    assert all(one.tokens != other.tokens for one, other in zip(first, second, strict=True))


def test_the_state_of_the_global_generators_does_not_matter() -> None:
    found = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        found.append(outputs(SampleConfig(samples=3), SOURCES, 6))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("weights", "top_k", "top_p", "kept"),
    [
        ([1, 4, 2, 3], 0, 1.0, [0, 1, 2, 3]),
        ([1, 4, 2, 3], 2, 1.0, [1, 3]),
        ([1, 4, 4, 4], 2, 1.0, [1, 2]),
        ([1, 4, 2, 3], 9, 1.0, [0, 1, 2, 3]),
        ([1, 4, 2, 3], 0, 0.4, [1]),
        ([1, 4, 2, 3], 0, 0.41, [1, 3]),
        ([1, 4, 2, 3], 0, 0.7, [1, 3]),
        ([1, 4, 2, 3], 0, 0.999, [0, 1, 2, 3]),
        ([2, 2, 2, 2], 0, 0.5, [0, 1]),
        ([1, 4, 2, 3], 2, 0.5, [1]),
        ([1, 4, 2, 3], 2, 0.6, [1, 3]),
        ([0, 1, 0, 1], 3, 1.0, [0, 1, 3]),
    ],
)
def test_what_is_likeliest(weights: list[float], top_k: int, top_p: float, kept: list[int]) -> None:
    """Shares are of what top_k leaves; the token that crosses top_p stays."""
    assert likeliest(np.array(weights, dtype=np.float32), top_k, top_p).tolist() == kept


def test_the_short_way_to_top_p_is_the_long_way() -> None:
    for seed in range(40):
        weights = np.exp(np.random.default_rng(seed).normal(size=300) * 3).astype(np.float32)
        top_p = random.Random(seed).choice([0.1, 0.5, 0.9, 0.99])
        order = sorted(range(300), key=lambda token: (-weights[token], token))
        reached = np.cumsum(weights[order].astype(np.float64))
        kept = order[: int(np.argmax(reached >= top_p * reached[-1])) + 1]
        assert likeliest(weights, 0, top_p).tolist() == sorted(kept)


def test_no_chance_is_outside_the_probabilities() -> None:
    """The ends of [0, 1) give tokens that may be said."""
    weights = np.array([0.0, 1.0, 0.0, 0.4, 0.0], dtype=np.float32)
    assert [quantile(weights, uniform) for uniform in (0.0, 0.71, 0.72, 1 - 2**-53)] == [1, 1, 3, 3]


def test_more_hypotheses_than_samples_are_refused() -> None:
    with pytest.raises(UsageError, match="2 samples cannot give 3 hypotheses"):
        run_search(SampleConfig(samples=2), TableSteps(random_table(1, 9)), task_of(SOURCES, LengthLimits(3), nbest=3))
