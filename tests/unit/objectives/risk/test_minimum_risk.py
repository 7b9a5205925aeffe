"""Minimum-risk training: costs, samples, and the gradient of the expected cost against enumeration."""

import math
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor

from qkv.core.errors import ConfigError
from qkv.data.batch import Batch
from qkv.models.base import Model
from qkv.models.decoders.autoregressive import AutoregressiveConfig
from qkv.models.transformer.channels import auxiliary_losses
from qkv.models.transformer.model import Transformer
from qkv.objectives.build import build_objective
from qkv.objectives.risk.candidates import draw, sequence_log_probs
from qkv.objectives.risk.costs import bleu_cost, wer_cost
from qkv.objectives.risk.minimum_risk import MinimumRisk, risks
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from qkv.training.trainer import Trainer
from tests.support.small import batch_of, small_model
from tests.support.tiny import as_recipe, assert_same, changed, plain, write_data

TINY = 8
"""Three ordinary tokens."""
LENGTHS = [(3, 2), (1, 1), (4, 0)]
EVERYTHING = [list(ids) for length in range(3) for ids in product(range(5, TINY), repeat=length)]
REFERENCES = [[5, 6], [7], [5]]


def tiny_model() -> Transformer:
    return small_model(src_vocab=TINY, tgt_vocab=TINY).double()


def objective(**settings: Any) -> MinimumRisk:
    base = ObjectiveConfig().build(TINY, SPECIAL, lambda: torch.ones(TINY))
    return MinimumRisk(base=base, **{"cost": wer_cost, **settings})


def log_prob(model: Model, batch: Batch, row: int, output: list[int]) -> Tensor:
    """By the definition: Π p(y_t | y_<t, X), one prefix at a time."""
    total = torch.zeros((), dtype=torch.float64)
    src, keep = batch.src[row : row + 1], batch.src_keep[row : row + 1]
    for t, token in enumerate([*output, SPECIAL.eos]):
        prefix = torch.tensor([[SPECIAL.bos, *output[:t]]])
        states, context = model(Batch(src, keep, prefix, prefix, torch.ones(prefix.shape), [0]))
        at = (slice(None), -1)
        never = (SPECIAL.pad, SPECIAL.bos, SPECIAL.mask)
        total = total + model.head.log_probs(states[at], context.at(at), never=never)[0, token]
    return total


@pytest.mark.parametrize("sharpness", [0.05, 1.0])
def test_the_gradient_of_the_expected_cost_of_everything(sharpness: float) -> None:
    """Over all outputs of up to two tokens: α E[cost · (∇ log p - E ∇ log p)], every expectation by enumeration."""
    model, batch = tiny_model(), batch_of(LENGTHS, vocab=TINY)
    found = objective(sharpness=sharpness).risks(model, batch, [EVERYTHING] * 3, REFERENCES)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradient = torch.autograd.grad(found.sum(), parameters, allow_unused=True)
    wanted_risk, wanted = 0.0, [torch.zeros_like(parameter) for parameter in parameters]
    for row, reference in enumerate(REFERENCES):
        scores = [log_prob(model, batch, row, output) for output in EVERYTHING]
        slopes = [torch.autograd.grad(score, parameters, allow_unused=True) for score in scores]
        powers = [math.exp(sharpness * float(score.detach())) for score in scores]
        q = [power / sum(powers) for power in powers]
        costs = [wer_cost(output, reference) for output in EVERYTHING]
        risk = sum(one * cost for one, cost in zip(q, costs, strict=True))
        wanted_risk += risk
        for share, cost, slope in zip(q, costs, slopes, strict=True):
            for total, part in zip(wanted, slope, strict=True):
                if part is not None:
                    total += sharpness * share * (cost - risk) * part
    assert float(found.sum().detach()) == pytest.approx(wanted_risk, rel=1e-9)
    for one, other in zip(gradient, wanted, strict=True):
        assert torch.allclose(torch.zeros_like(other) if one is None else one, other, rtol=1e-7, atol=1e-11)


def test_probabilities_of_outputs_against_one_prefix_at_a_time() -> None:
    model, batch = tiny_model(), batch_of(LENGTHS, vocab=TINY)
    candidates: list[list[list[int]]] = [[[5, 6, 7], [6]], [[]], [[7, 7]]]
    found = sequence_log_probs(model, batch, candidates, SPECIAL)
    for row, outputs in enumerate(candidates):
        wanted = torch.stack([log_prob(model, batch, row, output) for output in outputs])
        assert torch.allclose(found[row], wanted, rtol=1e-9)


def test_outputs_are_drawn_by_their_probabilities() -> None:
    """Of many draws, each one alone, every output has its share."""
    model, batch = tiny_model(), batch_of([(3, 2)], vocab=TINY)
    count = 3000
    src, keep, tgt_in, tgt_out = (
        part.expand(count, -1) for part in (batch.src, batch.src_keep, batch.tgt_in, batch.tgt_out)
    )
    many = Batch(src, keep, tgt_in, tgt_out, batch.tgt_weight.expand(count, -1), list(range(count)))
    torch.manual_seed(1)
    drawn = draw(model, many, 1, 30, SPECIAL)
    for output in EVERYTHING[:4]:
        share = sum(each == [output] for each in drawn) / count
        wanted = math.exp(float(log_prob(model, batch, 0, output).detach()))
        assert abs(share - wanted) < 4 * math.sqrt(wanted * (1 - wanted) / count)


def test_drawn_outputs_are_distinct_and_end_in_time() -> None:
    model, batch = small_model(), batch_of([(3, 2), (5, 4)])
    for outputs in draw(model, batch, 50, 6, SPECIAL):
        assert len({tuple(output) for output in outputs}) == len(outputs)
        assert all(len(output) <= 6 for output in outputs)
        assert not {SPECIAL.pad, SPECIAL.bos, SPECIAL.eos, SPECIAL.mask} & {token for one in outputs for token in one}


def test_the_loss_is_risk_and_likelihood() -> None:
    model, batch = small_model(), batch_of([(3, 5), (6, 2), (4, 7)])
    reports = {}
    for likelihood in (0.0, 0.5, 0.9):
        config = ObjectiveConfig(risk={"kind": "bleu", "likelihood": likelihood, "longest": 20})
        trained = build_objective(config, AutoregressiveConfig(), 23, SPECIAL, lambda: torch.ones(23))
        torch.manual_seed(4)
        reports[likelihood] = trained.training_loss(model, batch, 1)
    plain_loss = ObjectiveConfig().build(23, SPECIAL, lambda: torch.ones(23)).training_loss(model, batch, 1)
    risk, usual = float(reports[0.0].sum.detach()), float(plain_loss.sum.detach())
    assert 0 < risk < float(batch.tgt_weight.sum())
    assert reports[0.0].weight == plain_loss.weight
    assert reports[0.0].nll == pytest.approx(float(plain_loss.nll), rel=1e-5)
    for likelihood in (0.5, 0.9):
        wanted = (1 - likelihood) * risk + likelihood * usual
        assert float(reports[likelihood].sum.detach()) == pytest.approx(wanted, rel=1e-5)


def test_a_step_along_the_gradient_lowers_the_risk() -> None:
    model, batch = tiny_model(), batch_of(LENGTHS, vocab=TINY)
    trained = objective(sharpness=1.0)
    before = trained.risks(model, batch, [EVERYTHING] * 3, REFERENCES).sum()
    before.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(0.01 * parameter.grad)
    assert float(trained.risks(model, batch, [EVERYTHING] * 3, REFERENCES).sum().detach()) < float(before.detach())


def test_the_costs() -> None:
    assert wer_cost([1, 2, 3], [1, 2, 3]) == bleu_cost([1, 2, 3], [1, 2, 3]) == 0
    assert wer_cost([], [1, 2]) == wer_cost([3, 4], [1, 2]) == bleu_cost([], [1]) == bleu_cost([3], [1]) == 1
    assert wer_cost([1, 9, 2], [1, 2]) == 0.5
    assert wer_cost([], []) == bleu_cost([], []) == 0
    assert wer_cost([4, 4], []) == 2


def test_the_cost_of_bleu_is_that_of_the_library() -> None:
    scorer, source = BLEU(smooth_method="add-k", smooth_value=1, tokenize="none"), random.Random(3)
    for _ in range(100):
        output, reference = (source.choices(range(5), k=source.randint(1, 12)) for _ in range(2))
        texts = (" ".join(map(str, output)), [" ".join(map(str, reference))])
        assert bleu_cost(output, reference) == pytest.approx(1 - scorer.sentence_score(*texts).score / 100, abs=1e-9)


@pytest.mark.parametrize("kind", risks.names())
def test_fine_tuning_resumes_bit_for_bit(kind: str, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    Trainer(as_recipe(plain(data, tmp_path / "first", 4))).train()
    recipe = changed(plain(data, tmp_path / "straight", 8), objective={"risk": {"kind": kind, "samples": 3}})
    recipe["start_from"] = str(tmp_path / "first")
    Trainer(as_recipe(recipe)).train()
    halves = recipe | {"run": str(tmp_path / "halves")}
    Trainer(as_recipe(changed(halves, training={"stop_after": "4u"}))).train()
    Trainer.resume(tmp_path / "halves", ["training.stop_after=8u"]).train()
    assert_same(tmp_path / "halves", tmp_path / "straight")


def test_what_is_refused(tmp_path: Path) -> None:
    recipe = plain(tmp_path, tmp_path / "run") | {"objective": {"risk": "wer"}}
    with pytest.raises(ConfigError, match=r"objective\.risk refines a model .* give start_from"):
        as_recipe(recipe)
    recipe |= {"start_from": "x", "model": recipe["model"] | {"decoder": "nat"}}
    with pytest.raises(ConfigError, match=r"objective\.risk is for the autoregressive decoder"):
        as_recipe(recipe)


def test_an_auxiliary_loss_of_a_sentence_is_the_mean_over_its_candidates() -> None:
    """Sentences have different numbers of candidates; each cost must be counted for its own sentence."""
    model = small_model(src_vocab=TINY, tgt_vocab=TINY, stack={"kind": "adaptive"}).double()
    batch, candidates = batch_of(LENGTHS, vocab=TINY), [[[5], [6, 7]], [[5]], [[7], [6], [5, 5]]]
    with auxiliary_losses.listen() as together:
        sequence_log_probs(model, batch, candidates, SPECIAL)
    for row, outputs in enumerate(candidates):
        alone = []
        for output in outputs:
            with auxiliary_losses.listen() as costs:
                others = [[output] if each == row else [[5]] for each in range(len(candidates))]
                sequence_log_probs(model, batch, others, SPECIAL)
            alone.append([cost[row] for cost in costs])
        for cost, one in zip(together, zip(*alone, strict=True), strict=True):
            torch.testing.assert_close(cost[row], torch.stack(one).mean())
