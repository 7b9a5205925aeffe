"""Intervals and p-values: those of sacreBLEU, and right where nothing or everything differs."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.significance import PairedTest as SacreTest
from sacrebleu.significance import Result

from qkv.evaluation import resampling
from qkv.evaluation.metrics.base import Counts
from qkv.evaluation.metrics.registry import METRICS
from qkv.evaluation.metrics.sacre import SacreMetric
from qkv.evaluation.resampling import RESAMPLES, SHUFFLES, intervals, paired_tests

WORDS = ["the", "a", "man", "woman", "dog", "runs", "sits", "in", "on", "park", "with", "red", "blue", "and"]


def sentences(seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(4, 14))) for _ in range(count)]


def spoiled(texts: list[str], seed: int, share: float) -> list[str]:
    """A share of the words replaced."""
    source = random.Random(seed)
    return [
        " ".join(source.choice(WORDS) if source.random() < share else word for word in text.split()) for text in texts
    ]


REFERENCES = sentences(0, 90)
A, B = spoiled(REFERENCES, 1, 0.3), spoiled(REFERENCES, 2, 0.33)


@pytest.fixture(params=[4_000_000, 5_000], ids=["at once", "in pieces"])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little memory there is, the random choices are the same."""
    monkeypatch.setattr(resampling, "PIECE", request.param)


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_p_values_and_intervals_are_those_of_sacrebleu(name: str) -> None:
    metric = METRICS[name]
    assert isinstance(metric, SacreMetric)
    answers = [[reference] for reference in REFERENCES]
    rows = [metric.counts(outputs, answers) for outputs in (A, B)]
    (found,) = paired_tests([metric], rows[:1], rows[1:])
    systems: list[tuple[str, Sequence[str]]] = [("a", A), ("b", B)]
    bootstrap = SacreTest(systems, {name: metric.scorer}, [REFERENCES], "bs")()[1]
    shuffling = SacreTest(systems, {name: metric.scorer}, [REFERENCES], "ar")()[1]
    title = "BLEU" if name == "bleu" else "chrF2"
    before, after = bootstrap[title]
    shuffled = shuffling[title][1]
    assert isinstance(before, Result)
    assert isinstance(after, Result)
    assert isinstance(shuffled, Result)
    assert found.difference == pytest.approx(after.score - before.score)
    assert found.bootstrap == pytest.approx(after.p_value)
    assert found.randomization == pytest.approx(shuffled.p_value)
    assert 0.01 < found.randomization < 0.99
    for counts, wanted in zip(rows, (before, after), strict=True):
        (interval,) = intervals([metric], [counts])
        assert interval.mean == pytest.approx(wanted.mean, abs=1e-4)
        assert interval.half_width == pytest.approx(wanted.ci, abs=1e-4)


def right(pattern: str) -> Counts:
    return np.asarray([(letter == "r", 1) for letter in pattern], dtype=np.float64)


ACCURACY = METRICS["exact"]


def test_a_system_does_not_differ_from_itself() -> None:
    """sacreBLEU would say p = 0.001."""
    rows = right("rw" * 50)
    (found,) = paired_tests([ACCURACY], [rows], [rows])
    assert found.difference == 0
    assert found.bootstrap == found.randomization == 1
    assert not found.significant()


def test_a_real_difference_is_found() -> None:
    source = random.Random(0)
    before = right("".join("r" if source.random() < 0.6 else "w" for _ in range(400)))
    after = right("".join("r" if source.random() < 0.8 else "w" for _ in range(400)))
    (found,) = paired_tests([ACCURACY], [before], [after])
    assert found.difference > 10
    assert found.significant()
    assert found.bootstrap == pytest.approx(1 / (RESAMPLES + 1))
    assert found.randomization == pytest.approx(1 / (SHUFFLES + 1))
    assert 0 < found.interval.low < found.difference < found.interval.high


def test_chance_is_not_taken_for_a_difference() -> None:
    """20 pairs of systems that are equally good: about one in twenty may look significant, not many more."""
    source = np.random.default_rng(1)
    found = []
    for _ in range(20):
        before, after = (np.stack([source.random(100) < 0.7, np.ones(100)], axis=1).astype(float) for _ in range(2))
        found += paired_tests([ACCURACY], [before], [after])
    assert sum(test.significant() for test in found) <= 3
    assert np.mean([test.randomization for test in found]) > 0.35


def test_the_p_value_of_shuffling_is_exact_where_all_shuffles_can_be_counted() -> None:
    """Three outputs, all better: of the 8 ways to swap, 2 differ as much. p = 1/4."""
    (found,) = paired_tests([ACCURACY], [right("www")], [right("rrr")])
    assert found.randomization == pytest.approx(0.25, abs=0.02)
    assert not found.significant()


def test_better_and_worse_are_a_mirror() -> None:
    rows = right("rrrrwwww"), right("rrwwwwww")
    (there,), (back,) = paired_tests([ACCURACY], rows[:1], rows[1:]), paired_tests([ACCURACY], rows[1:], rows[:1])
    assert there.difference == -back.difference == -25
    assert (there.bootstrap, there.randomization) == (back.bootstrap, back.randomization)


def test_several_metrics_are_tested_as_if_each_were_alone() -> None:
    answers = [[reference] for reference in REFERENCES]
    metrics = [METRICS["per"], METRICS["bleu"]]
    a, b = ([metric.counts(outputs, answers) for metric in metrics] for outputs in (A, B))
    together = paired_tests(metrics, a, b)
    alone = [paired_tests([m], [x], [y])[0] for m, x, y in zip(metrics, a, b, strict=True)]
    assert together == alone
    assert intervals(metrics, a) == [intervals([m], [x])[0] for m, x in zip(metrics, a, strict=True)]


def test_the_interval_of_a_share_is_that_of_the_binomial() -> None:
    """400 outputs, half of them right: 50 ± 1.96 √(0.25 / 400) = 4.9."""
    (interval,) = intervals([ACCURACY], [right("rw" * 200)])
    assert interval.mean == pytest.approx(50, abs=0.5)
    assert interval.half_width == pytest.approx(4.9, rel=0.1)


def test_one_output_and_progress() -> None:
    calls: list[tuple[int, int | None]] = []
    (interval,) = intervals([ACCURACY], [right("r")], lambda done, total: calls.append((done, total)))
    assert (interval.low, interval.high) == (100, 100)
    assert calls[-1] == (RESAMPLES, RESAMPLES)
