"""Beam search: penalties, groups, what it tells an observer. What it finds is in tests/properties/test_search.py."""

import math
from typing import Any

import pytest
import torch

from qkv.core.errors import QkvError, UsageError
from qkv.search.base import LengthLimits
from qkv.search.beam import BeamConfig, BeamSearch, Kept, log_coverage
from tests.support.tables import (
    END,
    Ids,
    TableSteps,
    random_attention,
    random_sources,
    random_table,
    run_search,
    task_of,
)

SOURCES = random_sources(12, 5)


def table_of(rows: dict[Ids, dict[int, float]]) -> TableSteps:
    """Probabilities of what may follow; 8 tokens."""

    def table(source: Ids, said: Ids) -> list[float]:
        return [math.log(rows[said].get(token, 0.0) or 1e-30) for token in range(8)]

    return TableSteps(table)


A, B, C = 5, 6, 7
GARDEN_PATH: dict[tuple[int, ...], dict[int, float]] = {
    (): {A: 0.6, B: 0.4},
    (A,): {A: 0.3, B: 0.3, C: 0.3, END: 0.1},
    (B,): {C: 0.9, END: 0.1},
    (B, C): {END: 1.0},
    **{(A, each): {END: 1.0} for each in (A, B, C)},
}


def test_it_finds_what_greedy_search_misses() -> None:
    task = task_of([[5, END]], LengthLimits(3))
    ((one,),) = run_search(BeamConfig(size=1, length_penalty="none"), table_of(GARDEN_PATH), task)
    ((two,),) = run_search(BeamConfig(size=2, length_penalty="none"), table_of(GARDEN_PATH), task)
    assert one.tokens == [A, A]
    assert two.tokens == [B, C]
    assert two.score == pytest.approx(math.log(0.36))
    assert two.token_scores == pytest.approx([math.log(0.4), math.log(0.9), 0.0])


def test_an_end_that_is_not_among_the_first_candidates_does_not_count() -> None:
    """(A, END) is third in the second step: a beam of two never ends there."""
    kept: list[list[Kept]] = []
    task = task_of([[5, END]], LengthLimits(3))
    BeamSearch(2, stop="exact", observer=lambda _, each: kept.append(each)).run(table_of(GARDEN_PATH), task)
    assert [(each.parent, each.token, each.beam) for each in kept[0]] == [(0, A, 0), (0, B, 1)]
    assert [(each.parent, each.token, each.beam) for each in kept[1]] == [(1, C, 0), (0, A, 1)]
    assert [(each.token, each.beam) for each in kept[2]] == [(END, None), (END, None)]


def test_a_dead_end_is_no_hypothesis_if_there_is_another() -> None:
    """Nothing may follow A: it counts only where nothing has ended."""

    def table(source: Ids, said: Ids) -> list[float]:
        nothing = [-math.inf] * 8
        if not said:
            nothing[A], nothing[END] = -0.1, -2.3 if len(source) > 1 else -math.inf
        return nothing

    task = task_of([[5, END], [END]], LengthLimits(4), nbest=2)
    both, one = run_search(BeamConfig(size=2, stop="exact"), TableSteps(table), task)
    assert [(each.tokens, each.ended) for each in both] == [([], True)]
    assert [(each.tokens, each.ended) for each in one] == [([A], False)]


def smoothed_target(target: Ids, smoothing: float = 0.1) -> TableSteps:
    """A model of seven tokens that is sure of one output: each other token, END too, has its share of the smoothing."""
    spoken = [END, *range(5, 11)]

    def table(source: Ids, said: Ids) -> list[float]:
        right = (*target, END)[len(said)] if said == target[: len(said)] else 5 + len(said) % 3
        share = smoothing / (len(spoken) - 1)
        return [
            math.log(1 - smoothing if token == right else share) if token in spoken else -math.inf
            for token in range(11)
        ]

    return TableSteps(table)


@pytest.mark.parametrize("nbest", [1, 3])
def test_weak_ends_do_not_end_a_sentence(nbest: int) -> None:
    """A small vocabulary has an END among the best candidates of every step: `enough` stops at five of these."""
    target = (A, B, C, C, A, B, A, A, C, B, C, A)
    task = task_of([[5, END]], LengthLimits(40), nbest=nbest)
    found = {
        stop: run_search(BeamConfig(stop=stop), smoothed_target(target), task)[0]
        for stop in ("enough", "heuristic", "exact")
    }
    assert tuple(found["heuristic"][0].tokens) == tuple(found["exact"][0].tokens) == target
    assert found["heuristic"] == found["exact"]
    assert found["heuristic"][0].score == pytest.approx(math.log(0.9))
    assert len(found["enough"][0].tokens) < len(target)
    assert found["enough"][0].score < 2 * math.log(0.9)


def test_only_the_best_that_ended_are_kept() -> None:
    """More than `size` hypotheses end on the way, the worse ones first."""
    ends: list[float] = []

    def watch(_: int, kept: list[Kept]) -> None:
        ends.extend(each.total for each in kept if each.beam is None)

    task = task_of([[5, END]], LengthLimits(40), nbest=5)
    (found,) = BeamSearch(observer=watch).run(smoothed_target((A, B, C, C, A, B, A, A)), task)
    assert len(found) == 5 < len(ends)
    assert found[0].score > found[1].score >= found[4].score
    assert sum(found[0].token_scores) == pytest.approx(max(ends))


def test_hypotheses_are_sorted_and_distinct() -> None:
    for groups in (1, 2, 3):
        search = BeamConfig(size=6, groups=groups, diversity=0.0)
        for hypotheses in run_search(
            search, TableSteps(random_table(2, 10)), task_of(SOURCES, LengthLimits(5), nbest=6)
        ):
            scores = [each.score for each in hypotheses]
            assert scores == sorted(scores, reverse=True)
            assert len({tuple(each.tokens) for each in hypotheses}) == len(hypotheses) >= 6 // groups


def test_more_hypotheses_do_not_change_the_best() -> None:
    for penalty in ("power", "none"):
        search, table = BeamConfig(size=5, length_penalty=penalty), random_table(3, 10, end=0.5)
        one, five = (
            run_search(search, TableSteps(table), task_of(SOURCES, LengthLimits(8), nbest=nbest)) for nbest in (1, 5)
        )
        assert [each[0] for each in one] == [each[0] for each in five]


def test_without_penalties_it_stops_when_nothing_better_can_come() -> None:
    """All ways of stopping are the same then, and none is later than after `size` hypotheses."""
    table, task = random_table(3, 10, end=1.5), task_of(SOURCES, LengthLimits(9))
    rows: dict[tuple[str, str], int] = {}
    for penalty in ("none", "power"):
        found = []
        for stop in ("enough", "heuristic", "exact"):
            steps = TableSteps(table)
            found.append(run_search(BeamConfig(length_penalty=penalty, stop=stop), steps, task))
            rows[penalty, stop] = steps.all_rows
        assert (found[0] == found[2]) is (penalty == "none")
    assert rows["none", "enough"] == rows["none", "heuristic"] == rows["none", "exact"] < rows["power", "enough"]
    assert rows["power", "enough"] < rows["power", "heuristic"] <= rows["power", "exact"]


def test_coverage_is_the_formula() -> None:
    """END counts on both sides, padding does not."""
    attention = [torch.tensor([0.5, 0.25, 0.25, 0.0]), torch.tensor([0.75, 0.125, 0.125, 0.0])]
    assert log_coverage(attention, 3) == pytest.approx(math.log(1.0) + 2 * math.log(0.375))
    assert log_coverage([torch.zeros(3)], 3) > -1000


def test_coverage_changes_what_is_best() -> None:
    table, weights = random_table(3, 10), random_attention(1)
    outputs = []
    for beta in (0.0, 2.0):
        found = run_search(
            BeamConfig(coverage_penalty=beta), TableSteps(table, weights), task_of(SOURCES, LengthLimits(6))
        )
        outputs.append([best.tokens for (best,) in found])
    assert outputs[0] != outputs[1]


def test_coverage_without_attention_is_refused() -> None:
    with pytest.raises(QkvError, match="coverage penalty needs attention"):
        run_search(BeamConfig(coverage_penalty=0.2), TableSteps(random_table(0, 9)), task_of(SOURCES, LengthLimits(3)))


def test_groups_without_diversity_are_copies_of_a_small_beam() -> None:
    table, task = random_table(4, 10), task_of(SOURCES, LengthLimits(6), nbest=2)
    grouped = run_search(BeamConfig(size=6, groups=3, diversity=0.0), TableSteps(table), task)
    assert grouped == run_search(BeamConfig(size=2), TableSteps(table), task)


def test_one_group_is_plain_beam_search_whatever_its_diversity() -> None:
    table, task = random_table(4, 10), task_of(SOURCES, LengthLimits(6), nbest=4)
    one = run_search(BeamConfig(size=4, groups=1, diversity=9.0), TableSteps(table), task)
    assert one == run_search(BeamConfig(size=4), TableSteps(table), task)


def test_great_diversity_gives_each_group_its_own_tokens() -> None:
    """Every group begins with other tokens than those before, and scores are still log p / |Y|."""
    table = random_table(4, 16)
    first: dict[Any, Any] = {}
    search = BeamConfig(size=6, groups=3, diversity=1e4)

    def watch(sentence: int, kept: list[Kept]) -> None:
        first.setdefault(sentence, kept)

    found = search.beam_search(watch).run(TableSteps(table), task_of(SOURCES, LengthLimits(6), nbest=6))
    for kept in first.values():
        tokens = [{each.token for each in kept if (each.beam or 0) // 2 == group} for group in range(3)]
        assert all(tokens)
        assert sum(map(len, tokens)) == len(set().union(*tokens))
    for source, hypotheses in zip(map(tuple, SOURCES), found, strict=True):
        for each in hypotheses:
            said = (*each.tokens, END) if each.ended else tuple(each.tokens)
            expected = sum(table(source, said[:place])[token] for place, token in enumerate(said)) / len(said)
            assert each.score == pytest.approx(expected)


def test_an_observer_can_rebuild_every_hypothesis() -> None:
    """It is told everything that was kept, from the first step on."""
    search, table = BeamConfig(size=4, groups=2), random_table(6, 9)
    paths: list[dict[int, Ids]] = [dict.fromkeys(range(4), ()) for _ in SOURCES]
    ended: list[dict[Ids, float]] = [{} for _ in SOURCES]

    def watch(sentence: int, kept: list[Kept]) -> None:
        before, paths[sentence] = paths[sentence], {}
        for each in kept:
            said = (*before[each.parent], each.token)
            if each.beam is None:
                ended[sentence][said] = each.total
            else:
                paths[sentence][each.beam] = said

    found = search.beam_search(watch).run(TableSteps(table), task_of(SOURCES, LengthLimits(5), nbest=4))
    for hypotheses, finished in zip(found, ended, strict=True):
        for each in hypotheses:
            said = (*each.tokens, END) if each.ended else tuple(each.tokens)
            assert finished[said] == pytest.approx(sum(each.token_scores))


def test_finished_sentences_leave_the_batch() -> None:
    steps = TableSteps(random_table(3, 10, end=1.5))
    alone = [TableSteps(steps.table) for _ in SOURCES]
    run_search(BeamConfig(), steps, task_of(SOURCES, LengthLimits(9)))
    for source, own in zip(SOURCES, alone, strict=True):
        run_search(BeamConfig(), own, task_of([source], LengthLimits(9)))
    assert steps.all_rows == sum(own.all_rows for own in alone)
    assert len({own.steps for own in alone}) > 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="5 cannot be divided into 2 groups"):
        BeamConfig(size=5, groups=2)
    with pytest.raises(UsageError, match="a beam of size 2 cannot give 3 hypotheses"):
        run_search(BeamConfig(size=2), TableSteps(random_table(0, 9)), task_of(SOURCES, LengthLimits(3), nbest=3))
