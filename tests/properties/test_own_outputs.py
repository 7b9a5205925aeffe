"""What holds for all models and batches that learn from their own outputs: scheduled sampling and minimum risk."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.risk import expected_risk
from qkv.objectives.base import without_end
from qkv.objectives.risk.candidates import Candidates
from qkv.objectives.risk.costs import bleu_cost, wer_cost
from qkv.objectives.risk.minimum_risk import MinimumRisk
from qkv.objectives.scheduled_sampling.gold_rates import gold_rates
from qkv.objectives.scheduled_sampling.mixing import samplings
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, small_model

SEED = st.integers(0, 2**31)
IDS = st.lists(st.integers(5, 9), max_size=6)
PAIRS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=3)
"""Lengths of source and target."""
RATES = st.one_of(
    st.fixed_dictionaries({"kind": st.just("linear"), "updates": st.integers(1, 10**6)}),
    st.fixed_dictionaries({"kind": st.just("exponential"), "k": st.floats(1e-6, 1, exclude_max=True)}),
    st.fixed_dictionaries({"kind": st.just("inverse_sigmoid"), "k": st.floats(1, 1e6)}),
)
SCORES = st.lists(st.tuples(st.floats(-50, 0), st.floats(0, 2)), min_size=1, max_size=8)
"""Log-probability and cost of each output."""

few = settings(max_examples=15, deadline=None)
many = settings(max_examples=60, deadline=None)


@many
@given(
    setting=RATES,
    floor=st.floats(0, 1),
    after=st.integers(0, 1000),
    updates=st.lists(st.integers(1, 10**9), min_size=2, max_size=12),
)
def test_gold_rates_are_probabilities_that_never_rise(
    setting: dict[str, Any], floor: float, after: int, updates: list[int]
) -> None:
    rate = gold_rates[setting["kind"]](**setting, floor=floor, after=after).build()
    rates = [rate(update) for update in sorted(updates)]
    assert all(floor <= one <= 1 for one in rates)
    assert all(later <= earlier for earlier, later in pairwise(rates))
    assert rate(max(after, 1)) == 1 or not after


def read_in_the_second_pass(kind: str, batch: Batch, seed: int, gold: float = 0.0) -> Tensor:
    sampling = samplings[kind](gold={"kind": "linear", "updates": 1, "floor": gold}).build(SPECIAL)
    torch.manual_seed(seed)
    with sampling.mixing(small_model(), batch, 1) as tgt_in:
        return tgt_in


@pytest.mark.parametrize("kind", samplings.names())
@few
@given(lengths=PAIRS, gold=st.floats(0, 1), seed=SEED)
def test_the_start_symbol_and_padding_stay_and_every_prediction_can_be_read(
    kind: str, lengths: list[tuple[int, int]], gold: float, seed: int
) -> None:
    batch = batch_of(lengths, seed)
    found = read_in_the_second_pass(kind, batch, seed, gold)
    fixed = (batch.tgt_in == SPECIAL.pad) | (batch.tgt_in == SPECIAL.bos)
    assert torch.equal(found[fixed], batch.tgt_in[fixed])
    changed = found[~fixed & (found != batch.tgt_in)]
    if kind == "expected":
        assert bool((changed < 0).all()), "mean embeddings have ids of their own"
    else:
        assert bool(((changed == SPECIAL.unk) | (changed >= 5)).all() & (changed < VOCAB).all())


@few
@given(lengths=PAIRS, more=st.integers(0, 3), seed=SEED)
def test_a_sentence_reads_the_same_predictions_alone_and_beside_others(
    lengths: list[tuple[int, int]], more: int, seed: int
) -> None:
    """With all tokens replaced by the most probable ones, so that nothing is drawn."""
    batch = padded_by(batch_of(lengths, seed), more)
    together = read_in_the_second_pass("argmax", batch, seed)
    for number, (_, length) in enumerate(lengths):
        alone = read_in_the_second_pass("argmax", row_of(batch, number), seed)
        assert torch.equal(alone[0, : length + 1], together[number, : length + 1])
        assert bool((together[number, length + 1 :] == SPECIAL.pad).all())


def padded_by(batch: Batch, more: int) -> Batch:
    """The same pairs with `more` columns of padding on both sides."""

    def wider(part: Tensor, value: float) -> Tensor:
        return torch.nn.functional.pad(part, (0, more), value=value)

    return replace(
        batch,
        src=wider(batch.src, SPECIAL.pad),
        src_keep=wider(batch.src_keep, 0),
        tgt_in=wider(batch.tgt_in, SPECIAL.pad),
        tgt_out=wider(batch.tgt_out, SPECIAL.pad),
        tgt_weight=wider(batch.tgt_weight, 0),
    )


def row_of(batch: Batch, number: int) -> Batch:
    """One pair of the batch without its padding."""
    src, tgt = int(batch.src_keep[number].sum()), int((batch.tgt_weight[number] > 0).sum())
    row = slice(number, number + 1)
    return Batch(
        batch.src[row, :src],
        batch.src_keep[row, :src],
        batch.tgt_in[row, :tgt],
        batch.tgt_out[row, :tgt],
        batch.tgt_weight[row, :tgt],
        [number],
    )


@many
@given(scores=SCORES, sharpness=st.floats(1e-3, 4), shift=st.floats(-100, 100))
def test_risk_is_a_mean_of_the_costs(scores: list[tuple[float, float]], sharpness: float, shift: float) -> None:
    """Its weights are at least 0 and sum to one, and a constant added to every log-probability changes nothing."""
    log_probs, costs = torch.tensor(scores, dtype=torch.float64).unbind(-1)
    risk = float(expected_risk(log_probs, costs, sharpness))
    assert float(costs.min()) - 1e-12 <= risk <= float(costs.max()) + 1e-12
    weights = [float(expected_risk(log_probs, one, sharpness)) for one in torch.eye(len(costs), dtype=torch.float64)]
    assert min(weights) >= 0
    assert sum(weights) == pytest.approx(1, abs=1e-12)
    assert float(expected_risk(log_probs + shift, costs, sharpness)) == pytest.approx(risk, abs=1e-9)
    assert float(expected_risk(log_probs, costs + shift, sharpness)) == pytest.approx(risk + shift, abs=1e-9)


@many
@given(scores=SCORES, sharpness=st.floats(1e-3, 4))
def test_learning_moves_probability_from_costly_outputs_to_cheap_ones(
    scores: list[tuple[float, float]], sharpness: float
) -> None:
    """The gradient by log p is sharpness · Q · (cost - risk): it sums to zero, with the sign of the excess cost."""
    log_probs, costs = torch.tensor(scores, dtype=torch.float64).unbind(-1)
    log_probs.requires_grad_()
    risk = expected_risk(log_probs, costs, sharpness)
    (slope,) = torch.autograd.grad(risk, [log_probs])
    assert float(slope.sum()) == pytest.approx(0, abs=1e-10)
    assert bool((slope * (costs - risk.detach()) >= -1e-12).all())


@many
@given(output=IDS, reference=IDS)
def test_costs_are_zero_for_the_reference_alone(output: list[int], reference: list[int]) -> None:
    for cost in (bleu_cost, wer_cost):
        assert cost(reference, reference) == pytest.approx(0, abs=1e-12)
        assert cost(output, reference) > 1e-12 or output == reference


@few
@given(
    lengths=PAIRS, more=st.integers(0, 3), drawn=st.lists(st.lists(IDS, min_size=1, max_size=4), min_size=3), seed=SEED
)
@torch.no_grad()
def test_the_risk_of_a_sentence_is_the_same_alone_and_beside_others(
    lengths: list[tuple[int, int]], more: int, drawn: Candidates, seed: int
) -> None:
    """And in any order of its outputs; padding of the batch counts nothing."""
    model = small_model().double()
    base = ObjectiveConfig().build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    objective = MinimumRisk(base=base, cost=wer_cost, sharpness=0.5)
    batch, candidates = padded_by(batch_of(lengths, seed), more), drawn[: len(lengths)]
    targets, sizes = without_end(batch, SPECIAL.pad)
    references = [row[:size] for row, size in zip(targets.tolist(), sizes.tolist(), strict=True)]
    together = objective.risks(model, batch, candidates, references)
    for number, outputs in enumerate(candidates):
        alone = objective.risks(model, row_of(batch, number), [outputs[::-1]], references[number : number + 1])
        torch.testing.assert_close(alone[0], together[number], rtol=0, atol=1e-10)
