"""Each rule holds, whatever the model says; what cannot be held is refused."""

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.core.errors import UsageError
from qkv.search.base import Constraints, LengthLimits, SearchConfig, searches
from qkv.search.beam import BeamConfig
from qkv.search.constraints import Required, Rules, contains, dealt, ends_with, repeating
from qkv.search.hypothesis import Candidate, Partial
from tests.support.tables import END, TableSteps, every_output, random_sources, random_table, run_search, task_of

VOCAB = 12
SOURCES = random_sources(10, 8)
STEPWISE = [kind for kind in searches.names() if kind not in ("refine", "speculative")]
EVERY = [searches[kind](**({"samples": 4} if kind == "mbr" else {})) for kind in STEPWISE]
EVERY += [BeamConfig(size=4, groups=2), BeamConfig(stop="exact")]
every_search = pytest.mark.parametrize("search", EVERY, ids=lambda search: f"{search.kind}-{search.rows}")


def run(search: SearchConfig, limits: LengthLimits, end: float = 0.0, **rules: Any) -> list[list[int]]:
    """All outputs of all sentences, under the same rules."""
    constraints = [Constraints(**rules)] * len(SOURCES)
    task = task_of(SOURCES, limits, constraints=constraints, nbest=min(search.rows, 3))
    found = run_search(search, TableSteps(random_table(2, VOCAB, end=end)), task)
    return [hypothesis.tokens for hypotheses in found for hypothesis in hypotheses]


@every_search
def test_nothing_shorter_than_the_shortest(search: SearchConfig) -> None:
    assert min(map(len, run(search, LengthLimits(9), end=2.0))) < 4
    assert min(map(len, run(search, LengthLimits(9, 4), end=2.0))) == 4


@every_search
def test_the_output_begins_with_the_prefix(search: SearchConfig) -> None:
    prefix = [7, 7, 1, 11]
    outputs = run(search, LengthLimits(9), prefix=prefix, forbidden=[[7, 7]])
    assert all(tokens[:4] == prefix for tokens in outputs)
    assert len({tuple(tokens) for tokens in outputs}) > 3
    assert {tuple(tokens) for tokens in run(search, LengthLimits(4), prefix=prefix)} == {tuple(prefix)}


@every_search
def test_forbidden_sequences_do_not_occur(search: SearchConfig) -> None:
    before = run(search, LengthLimits(9, 9))
    forbidden = [[5], *[[first, second] for first in (6, 7, 8) for second in range(6, VOCAB)], [9, 10, 11]]
    assert any(contains(tokens, bad) for tokens in before for bad in forbidden)
    after = run(search, LengthLimits(9, 9), forbidden=forbidden)
    assert not any(contains(tokens, bad) for tokens in after for bad in forbidden)
    assert {len(tokens) for tokens in after} == {9}


@every_search
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_occurs_twice(search: SearchConfig, n: int) -> None:
    """A model that loves to repeat itself."""

    def table(source: tuple[int, ...], said: tuple[int, ...]) -> list[float]:
        scores = [-4.0] * VOCAB
        scores[END] = -9.0
        scores[said[-1] if said else 5] = -0.1
        return scores

    careful = search.model_copy(update={"no_repeat_ngram": n})
    plain = run_search(search, TableSteps(table), task_of(SOURCES, LengthLimits(6)))
    found = run_search(careful, TableSteps(table), task_of(SOURCES, LengthLimits(6), nbest=min(search.rows, 3)))
    assert any(repeats(best.tokens, n) for (best,) in plain)
    assert not any(repeats(each.tokens, n) for hypotheses in found for each in hypotheses)
    assert any(len(each.tokens) > n for hypotheses in found for each in hypotheses)


def repeats(tokens: list[int], n: int) -> bool:
    ngrams = [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]
    return len(set(ngrams)) < len(ngrams)


def test_which_tokens_would_repeat() -> None:
    assert set(repeating([5, 6, 5, 7, 5], 2)) == {6, 7}
    assert set(repeating([5, 6, 5, 6], 3)) == {5}
    assert set(repeating([5, 6], 1)) == {5, 6}
    assert set(repeating([], 1)) == set(repeating([5], 2)) == set(repeating([5, 5, 5], 0)) == set()


@every_search
def test_where_nothing_may_follow_the_output_is_cut(search: SearchConfig) -> None:
    """END may not come yet and every other token is forbidden."""
    forbidden = [[token] for token in range(1, VOCAB) if token not in (2, 3, 4, 8)]
    constraints = [Constraints(prefix=[6], forbidden=[*forbidden, [8, 8]])] * len(SOURCES)
    task = task_of(SOURCES, LengthLimits(7, 5), constraints=constraints)
    for (best,) in run_search(search, TableSteps(random_table(2, VOCAB)), task):
        assert best.tokens == [6, 8]
        assert not best.ended


@pytest.mark.parametrize("kind", ["greedy", "sample", "mbr"])
def test_required_sequences_need_a_beam(kind: str) -> None:
    with pytest.raises(UsageError, match=f"the search kind {kind} cannot take required words: use the kind beam"):
        run(searches[kind](), LengthLimits(9), required=[[5]])


BEAMS = [BeamConfig(size=size) for size in (1, 2, 5)] + [BeamConfig(size=4, groups=2), BeamConfig(stop="exact")]
every_beam = pytest.mark.parametrize("search", BEAMS, ids=lambda search: f"{search.size}-{search.groups}-{search.stop}")


@every_beam
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_required_sequences_always_occur(search: BeamConfig, seed: int) -> None:
    """However improbable, whatever the other rules, and with no space to spare."""
    chance = random.Random(seed)
    required = [chance.choices(range(5, 10), k=chance.randint(1, 3)) for _ in range(chance.randint(1, 3))]
    space = Required(required).total + chance.choice([0, 1, 2, 5])
    table = random_table(seed, VOCAB, end=chance.choice([-3.0, 0.0, 3.0]))
    sources = random_sources(3, seed)
    constraints = [Constraints(required=required, forbidden=[[10]]), Constraints(), Constraints(required=required)]
    careful = search.model_copy(update={"no_repeat_ngram": chance.choice([0, 2])})
    task = task_of(sources, LengthLimits(space), constraints=constraints, nbest=min(3, search.size))
    first, _, last = run_search(careful, TableSteps(table), task)
    for hypothesis in (*first, *last):
        assert all(contains(hypothesis.tokens, sequence) for sequence in required)
    assert not any(10 in hypothesis.tokens for hypothesis in first)


def test_a_sentence_without_required_sequences_is_as_ever() -> None:
    table = random_table(1, VOCAB)
    plain = run_search(BeamConfig(), TableSteps(table), task_of(SOURCES, LengthLimits(7)))
    constraints = [Constraints(required=[[5, 6]] if index % 2 else ()) for index in range(len(SOURCES))]
    mixed = run_search(BeamConfig(), TableSteps(table), task_of(SOURCES, LengthLimits(7), constraints=constraints))
    assert mixed[::2] == plain[::2]
    assert mixed[1::2] != plain[1::2]


@pytest.mark.parametrize("seed", range(8))
def test_a_wide_beam_finds_the_best_output_that_holds_them(seed: int) -> None:
    vocab, longest, required = 8, 4, [[5, 6], [7]]
    table, (source,) = random_table(seed, vocab, end=1.0), random_sources(1, seed)
    task = task_of([source], LengthLimits(longest), constraints=[Constraints(required=required)])
    ((found,),) = run_search(BeamConfig(size=600, stop="exact"), TableSteps(table), task)
    outputs = [
        each
        for each in every_output(table, tuple(source), vocab, longest)
        if all(contains(each.tokens, sequence) for sequence in required)
    ]
    best = max(outputs, key=lambda each: each.total / len(each.token_scores))
    assert tuple(found.tokens) == best.tokens


def test_what_is_missing() -> None:
    required = Required([[5, 6, 5, 6, 7], [8], [6, 5], [8]])
    assert required.total == 6
    assert required.missing([]) == 6
    assert required.missing([5, 6, 5, 6]) == 2
    assert required.missing([5, 6, 5, 6, 5]) == 3
    assert required.missing([9, 8]) == 5
    assert required.missing([8, 5, 6, 5, 6, 7]) == 0
    assert required.next_tokens([5, 6]) == [5, 8]
    assert required.only([5, 6], 7) is None
    assert required.only([5, 6], 6) == [5, 8]
    assert required.only([5, 6], 4) == [5]
    assert required.only([8, 5, 6, 5, 6, 7], 0) is None


def test_places_are_dealt_out_by_banks() -> None:
    """The best of those that hold most, the best of those that hold one less, ..., then the second best of each."""
    required = Required([[5, 6]])
    live = [Partial().extended(5, -1.0, None), Partial().extended(9, -0.5, None)]
    log_probs = torch.full((2, 12), -3.0)
    log_probs[1, 9], log_probs[1, 10] = -0.2, -0.4
    best = [Candidate(-0.7, 1, 9, -0.2), Candidate(-0.9, 1, 10, -0.4)]
    found = dealt(required, live, best, log_probs, log_probs)
    assert [(each.beam, each.token) for each in found] == [(0, 6), (1, 5), (1, 9), (1, 10)]
    assert found[0].score == pytest.approx(-4.0)
    assert found[0].log_prob == -3.0


def test_ends_with_and_contains() -> None:
    assert ends_with([5, 6], [6])
    assert ends_with([5, 6], [])
    assert not ends_with([6], [5, 6])
    assert contains([5, 6, 7], [6, 7])
    assert not contains([5, 6, 7], [5, 7])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"required": [[5, 6], []]}, "has no tokens"),
        ({"forbidden": [[5, END]]}, "holds a special token"),
        ({"prefix": [0]}, "holds a special token"),
        ({"required": [[5, 6, 7]], "forbidden": [[6]]}, "holds the forbidden"),
    ],
)
def test_rules_that_cannot_hold_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(BeamConfig(), LengthLimits(5), **rules)


@every_search
def test_a_prefix_that_the_model_cannot_hold_is_cut(search: SearchConfig) -> None:
    assert {tuple(tokens) for tokens in run(search, LengthLimits(5), prefix=[5, 6, 7, 8, 9, 10])} == {(5, 6, 7, 8, 9)}


@every_beam
def test_required_sequences_that_the_model_cannot_hold_leave_a_cut_output(search: BeamConfig) -> None:
    """A line that cannot be done well is told as cut; the others are not stopped by it."""
    constraints = [Constraints(required=[[5, 6, 7], [8, 9]]), Constraints()]
    task = task_of(SOURCES[:2], LengthLimits(4), constraints=constraints)
    (tight,), _ = run_search(search, TableSteps(random_table(2, VOCAB)), task)
    assert len(tight.tokens) == 4
    assert not tight.ended


def test_without_rules_nothing_is_done() -> None:
    assert not Rules(task_of(SOURCES, LengthLimits(3), constraints=[Constraints()] * len(SOURCES)), 0).active
    assert not Rules(task_of(SOURCES, LengthLimits(3)), 0).active


def test_rules_leave_the_log_probabilities_of_a_step_as_they_were() -> None:
    task = task_of([[END]], LengthLimits(3, 1))
    log_probs = torch.full((1, 6), -1.0)
    rules = Rules(task, 0)
    masked = rules.apply(log_probs, [(0, Partial())])
    assert masked.tolist() == [[-1.0, -1.0, -1.0, -torch.inf, -1.0, -1.0]]
    assert log_probs.tolist() == [[-1.0] * 6]
