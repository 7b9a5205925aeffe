"""Minimum Bayes risk against the definition."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from qkv.search.base import LengthLimits
from qkv.search.mbr import MbrConfig, mean_utilities, utility
from qkv.search.sampling import SampleSearch
from tests.support.tables import TableSteps, random_sources, random_table, run_search, task_of

SOURCES = random_sources(6, 2)
TABLE = random_table(4, 10, end=0.5)
WORDS = ["", "", "", "", "", "the", "these", "cat", "cats", "sat"]


def detokenize(tokens: list[int]) -> str:
    return " ".join(WORDS[token] or "unknown" for token in tokens)


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_it_is_the_sample_most_like_the_others(metric: str) -> None:
    search = MbrConfig(samples=8, metric=metric, seed=3)
    task = task_of(SOURCES, LengthLimits(5, 1), detokenize=[detokenize] * len(SOURCES))
    drawn = SampleSearch(samples=8, seed=3).draw(TableSteps(TABLE), task)
    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    beside = 0
    for samples, (best,) in zip(drawn, run_search(search, TableSteps(TABLE), task), strict=True):
        texts = [detokenize(sample.tokens) for sample in samples]
        means = [
            sum(scorer.sentence_score(text, [other]).score for j, other in enumerate(texts) if j != i) / 7
            for i, text in enumerate(texts)
        ]
        winner = max(range(8), key=lambda i: (round(means[i], 6), samples[i].score))
        assert best.tokens == samples[winner].tokens
        assert best.score == pytest.approx(means[winner])
        beside += winner != max(range(8), key=lambda i: samples[i].score)
    assert beside


def test_alternatives_are_sorted_and_different_texts() -> None:
    task = task_of(SOURCES, LengthLimits(3), detokenize=[detokenize] * len(SOURCES), nbest=5)
    for hypotheses in run_search(MbrConfig(samples=12, temperature=0.5), TableSteps(TABLE), task):
        scores = [each.score for each in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({detokenize(each.tokens) for each in hypotheses}) == len(hypotheses)


def test_without_a_detokenizer_ids_are_compared() -> None:
    task = task_of(SOURCES, LengthLimits(5, 1))
    texts = task_of(SOURCES, LengthLimits(5, 1), detokenize=[lambda tokens: " ".join(map(str, tokens))] * len(SOURCES))
    search = MbrConfig(samples=5)
    assert run_search(search, TableSteps(TABLE), task) == run_search(search, TableSteps(TABLE), texts)


def test_equal_texts_are_others_too() -> None:
    calls: list[tuple[str, str]] = []

    def metric(text: str, other: str) -> float:
        calls.append((text, other))
        return 100.0 if text == other else 10.0 * len(other)

    assert mean_utilities(["a", "bb", "a"], metric) == [pytest.approx(60), pytest.approx(10), pytest.approx(60)]
    assert len(calls) == len(set(calls))


def test_utilities_are_sentence_scores() -> None:
    assert utility("chrf")("the cat", "the cats") == CHRF().sentence_score("the cat", ["the cats"]).score
    assert utility("bleu")("the cat", "the cat") == pytest.approx(100)


def test_one_sample_has_no_others() -> None:
    with pytest.raises(ValueError, match="samples"):
        MbrConfig(samples=1)
