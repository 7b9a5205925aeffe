"""What beam search finds, against all outputs there are, and against a plain program that does the same."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import config

from qkv.search import beam as beam_group
from qkv.search.base import Constraints, LengthLimits, SearchConfig, SearchTask
from qkv.search.beam import BeamConfig, log_coverage
from qkv.search.greedy import GreedyConfig
from qkv.search.length_penalty import Gnmt, LengthPenaltyConfig, NoLengthPenalty, Power
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.text import SPECIAL
from tests.support.small import small_model
from tests.support.tables import (
    END,
    Ids,
    Output,
    Table,
    TableSteps,
    every_output,
    random_attention,
    random_sources,
    random_table,
    run_search,
    task_of,
)

SEED = st.integers(0, 2**32)
PENALTIES: list[LengthPenaltyConfig] = [
    Power(),
    Power(alpha=0.5),
    Power(alpha=-0.5),
    Gnmt(),
    Gnmt(alpha=1.5),
    NoLengthPenalty(),
]


def score(output: Output, penalty: LengthPenaltyConfig, beta: float, weights: Table, source: Ids) -> float:
    """The definition: log p / lp(|Y|) + beta x sum over the source of log min(coverage, 1)."""
    said = (*output.tokens, END) if output.ended else output.tokens
    rows = [torch.tensor(weights(source, said[:place])) for place in range(len(said))]
    covered = log_coverage(rows, len(source)) if rows else 0.0
    return output.total / penalty.at(len(said)) + beta * covered


@pytest.mark.parametrize("block", range(25))
def test_a_wide_beam_finds_the_best_of_all_outputs(block: int) -> None:
    """500 random tables, 20 in each block: lengths, penalties, coverage and the number of hypotheses vary."""
    chance = random.Random(block)
    vocab, longest, fewest = chance.choice([(7, 4, 0), (7, 3, 1), (9, 3, 0), (6, 5, 2), (8, 2, 0), (11, 1, 0)])
    penalty, beta, nbest = chance.choice(PENALTIES), chance.choice([0.0, 0.0, 0.3]), chance.randint(1, 4)
    table, weights = random_table(block, vocab, end=chance.gauss(0, 1)), random_attention(block)
    sources = random_sources(20, block)
    search = BeamConfig(size=(vocab - 4) ** longest + 5, stop="exact", length_penalty=penalty, coverage_penalty=beta)
    found = run_search(search, TableSteps(table, weights), task_of(sources, LengthLimits(longest, fewest), nbest=nbest))
    for source, hypotheses in zip(map(tuple, sources), found, strict=True):
        outputs = [each for each in every_output(table, source, vocab, longest) if len(each.tokens) >= fewest]
        ranked = sorted(((score(each, penalty, beta, weights, source), each) for each in outputs), key=lambda x: -x[0])
        assert [tuple(each.tokens) for each in hypotheses] == [each.tokens for _, each in ranked[:nbest]]
        for hypothesis, (expected, output) in zip(hypotheses, ranked, strict=False):
            assert hypothesis.score == pytest.approx(expected, abs=1e-6)
            assert hypothesis.token_scores == output.token_scores
            assert hypothesis.ended is output.ended


@pytest.mark.parametrize("seed", range(10))
def test_so_it_does_with_real_models(seed: int) -> None:
    """Every output is scored by one pass over it, without steps."""
    vocab, longest = 8, 3
    model = small_model(seed, tgt_vocab=vocab, share_embeddings="none", encoder_layers=1, decoder_layers=1).eval()
    (source,) = random_sources(1, seed)
    src = torch.tensor([source])

    @cache
    def log_probs(_: Ids, said: Ids) -> list[float]:
        with torch.no_grad():
            decoded = model.states(src, torch.ones_like(src, dtype=torch.bool), torch.tensor([[SPECIAL.bos, *said]]))
            logits = model.head.log_probs(decoded[0, -1])
        logits[[SPECIAL.pad, SPECIAL.bos, SPECIAL.mask]] = -torch.inf
        numbers: list[float] = logits.log_softmax(-1).tolist()
        return numbers

    outputs = every_output(log_probs, tuple(source), vocab, longest)
    best = max(outputs, key=lambda each: each.total / len(each.token_scores))
    search = BeamConfig(size=100, stop="exact")
    for steps in (ModelSteps(model), PrefixSteps(model)):
        ((found,),) = run_search(search, steps, task_of([source], LengthLimits(longest)))
        assert tuple(found.tokens) == best.tokens
        assert found.score == pytest.approx(best.total / len(best.token_scores), abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(SEED, st.sampled_from(PENALTIES), st.sampled_from([0.0, 0.5]))
def test_a_beam_of_one_is_greedy_search(seed: int, penalty: LengthPenaltyConfig, grain: float) -> None:
    table, sources = random_table(seed, 12, end=0.5, grain=grain), random_sources(4, seed)
    task = task_of(sources, LengthLimits(6))
    greedy = run_search(GreedyConfig(), TableSteps(table), task)
    beam = run_search(BeamConfig(size=1, length_penalty=penalty), TableSteps(table), task)
    for (one,), (other,) in zip(greedy, beam, strict=True):
        assert (one.tokens, one.token_scores, one.ended) == (other.tokens, other.token_scores, other.ended)


@dataclass(frozen=True)
class Path:
    said: Ids
    total: float


def plain_beam(
    table: Table, source: Ids, size: int, longest: int, nbest: int, stop: str
) -> list[tuple[Ids, bool, float]]:
    """Beam search in lists. Score: log p / |Y|."""
    live, finished = [Path((), 0.0)], []
    for step in range(1, longest + 1):
        candidates = [
            (path.total + log_prob, -beam, -token)
            for beam, path in enumerate(live)
            for token, log_prob in enumerate(table(source, path.said))
            if log_prob > -torch.inf
        ]
        going_on: list[Any] = []
        for rank, (total, minus_beam, minus_token) in enumerate(sorted(candidates, reverse=True)[: 2 * size]):
            path = Path((*live[-minus_beam].said, -minus_token), total)
            if -minus_token == END or step == longest:
                if rank < size:
                    ended = -minus_token == END
                    finished.append((path.said[: -1 if ended else None], ended, total / step))
            elif len(going_on) < size:
                going_on.append(path)
        live = going_on
        finished.sort(key=lambda each: -each[2])
        if not live or plainly_done([each[2] for each in finished], live, size, longest, nbest, stop):
            break
    return finished[:nbest]


def plainly_done(scores: list[float], live: list[Path], size: int, longest: int, nbest: int, stop: str) -> bool:
    """The three ways to stop; `scores` are sorted."""
    best, step = max(path.total for path in live), len(live[0].said)
    enough = len(scores) >= size
    exact = len(scores) >= nbest and best / longest <= scores[nbest - 1]
    heuristic = enough if size == 1 else exact or (enough and best / (step + 1) <= scores[size - 1])
    return {"enough": enough, "exact": exact, "heuristic": heuristic}[stop]


@settings(max_examples=120, deadline=None)
@given(
    SEED,
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 6),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([12, 150]),
    st.sampled_from(["enough", "heuristic", "exact"]),
)
def test_it_is_the_plain_program_and_breaks_ties_by_its_rule(
    seed: int, size: int, nbest: int, longest: int, grain: float, vocab: int, stop: str
) -> None:
    """With a grain most candidates are equal to another one."""
    table, sources, nbest = random_table(seed, vocab, end=1.5, grain=grain), random_sources(3, seed), min(nbest, size)
    found = run_search(
        BeamConfig(size=size, stop=stop), TableSteps(table), task_of(sources, LengthLimits(longest), nbest=nbest)
    )
    for source, hypotheses in zip(map(tuple, sources), found, strict=True):
        expected = plain_beam(table, source, size, longest, nbest, stop) or [((), False, 0.0)]
        assert [(tuple(each.tokens), each.ended) for each in hypotheses] == [each[:2] for each in expected]
        assert [each.score for each in hypotheses] == pytest.approx([each[2] for each in expected])


@settings(max_examples=40, deadline=None)
@given(SEED, st.integers(1, 4), st.sampled_from(PENALTIES), st.integers(1, 4))
def test_exact_stopping_gives_what_never_stopping_gives(
    seed: int, size: int, penalty: LengthPenaltyConfig, nbest: int
) -> None:
    table, sources = random_table(seed, 10, end=1.0), random_sources(3, seed)
    task = task_of(sources, LengthLimits(12), nbest=min(nbest, size))
    search = BeamConfig(size=size, stop="exact", length_penalty=penalty)
    early, late = TableSteps(table), TableSteps(table)
    stopped = run_search(search, early, task)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam_group.Judge, "done", lambda *_: False)
        complete = run_search(search, late, task)
    assert stopped == complete
    assert early.all_rows <= late.all_rows


def test_exact_stopping_saves_steps() -> None:
    """Over many sentences, against never stopping; and `enough` may miss the best."""
    table, sources = random_table(7, 10, end=1.0), random_sources(60, 7)
    task = task_of(sources, LengthLimits(12))
    exact, enough = TableSteps(table), TableSteps(table)
    best = run_search(BeamConfig(size=3, stop="exact"), exact, task)
    quick = run_search(BeamConfig(size=3, stop="enough"), enough, task)
    assert enough.all_rows < exact.all_rows < 60 * 3 * 12
    worse = [one.score < other.score for (one,), (other,) in zip(quick, best, strict=True)]
    assert 0 < sum(worse) < len(worse)
    assert all(one.score <= other.score for (one,), (other,) in zip(quick, best, strict=True))


@settings(max_examples=40, deadline=None)
@given(SEED, st.integers(1, 3), st.integers(0, 2), st.lists(st.sampled_from([5, 6, 7]), max_size=2))
def test_rules_narrow_down_all_outputs(seed: int, ngram: int, fewest: int, prefix: list[int]) -> None:
    """With rules a wide beam finds the best of all outputs that keep them."""
    vocab, longest, forbidden = 8, 4, [[5, 6], [7]]
    table, (source,) = random_table(seed, vocab), random_sources(1, seed)
    task = task_of([source], LengthLimits(longest, fewest), constraints=[Constraints(prefix, forbidden)])
    search = BeamConfig(size=300, stop="exact", no_repeat_ngram=ngram)
    ((found,),) = run_search(search, TableSteps(table), task)
    kept = [
        each
        for each in every_output(table, tuple(source), vocab, longest)
        if keeps(each, prefix, forbidden, ngram, fewest)
    ]
    best = max(kept, key=lambda each: each.total / len(each.token_scores), default=None)
    if best is None or len(best.token_scores) < 1:
        assert not found.ended
    else:
        assert tuple(found.tokens) == best.tokens


def keeps(output: Output, prefix: list[int], forbidden: list[list[int]], ngram: int, fewest: int) -> bool:
    """The prefix is free of the other rules; what follows it is not."""
    tokens, free = list(output.tokens), len(prefix)
    if tokens[:free] != prefix or len(tokens) < fewest:
        return False
    for end in range(free + 1, len(tokens) + 1):
        if any(tokens[max(end - len(bad), 0) : end] == bad for bad in forbidden):
            return False
        if end >= ngram and tokens[end - ngram : end] in [tokens[i : i + ngram] for i in range(end - ngram)]:
            return False
    return True


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the checks of shapes, which take longer than a small model."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("search", [GreedyConfig(max_factor=1.0, max_extra=1), BeamConfig(size=2, max_length=4)])
def test_a_thousand_sentences_alone_in_batches_and_shuffled(search: SearchConfig) -> None:
    """With a real model, where the batch changes the last digits of its numbers."""
    steps = ModelSteps(
        small_model(8, share_embeddings="none", residual="pre", encoder_layers=1, decoder_layers=1).eval()
    )
    sources = random_sources(1000, 1, longest=8)
    order = list(range(1000))
    random.Random(2).shuffle(order)

    def outputs(batch: list[int]) -> list[list[int]]:
        found = run_search(search, steps, task_of([sources[index] for index in batch], search))
        return [best.tokens for (best,) in found]

    alone = [outputs([index])[0] for index in range(1000)]
    for start in range(0, 1000, 50):
        assert outputs(list(range(start, start + 50))) == alone[start : start + 50]
        assert outputs(order[start : start + 50]) == [alone[index] for index in order[start : start + 50]]
    assert len({tuple(tokens) for tokens in alone}) > 20


def test_a_task_keeps_sentences_apart() -> None:
    """Each of a batch has its own limits and rules."""
    table, sources = random_table(1, 9), [[5, END], [5, END], [5, END]]
    src = torch.tensor(sources)
    constraints = [Constraints(), Constraints(prefix=[8]), Constraints(forbidden=[[5], [6], [7]])]
    limits = [LengthLimits(2, 2), LengthLimits(5), LengthLimits(4, 4)]
    task = SearchTask(src, src > 0, SPECIAL, limits, constraints=constraints)
    for search in (BeamConfig(), GreedyConfig()):
        found = [best.tokens for (best,) in run_search(search, TableSteps(table), task)]
        assert len(found[0]) == 2
        assert found[1][0] == 8
        assert len(found[2]) == 4
        assert set(found[2]) <= {1, 8}
