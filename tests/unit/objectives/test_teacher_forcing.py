"""Teacher forcing: inputs, labels, sums, weights, smoothing."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from qkv.data.batch import Batch
from qkv.functional.losses import others, smoothed_cross_entropy
from qkv.models.base import Model, Output
from qkv.models.heads.linear import LinearHead, output_matrix
from qkv.models.transformer.build import build_model
from qkv.models.transformer.model import Transformer
from qkv.objectives.base import LossReport
from qkv.objectives.noise import Drop
from qkv.objectives.smoothing import NoSmoothing, Unigram
from qkv.objectives.teacher_forcing import ObjectiveConfig, TeacherForcing
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, decode, gradient_of, small_config, small_model

LENGTHS = [(3, 5), (6, 2), (1, 0), (4, 7), (2, 3)]


def never() -> Tensor:
    raise AssertionError("only the unigram form counts tokens")


def teacher(**config: object) -> TeacherForcing:
    return ObjectiveConfig(**config).build(VOCAB, SPECIAL, never)


def token_log_probs(model: Transformer, batch: Batch) -> Tensor:
    with torch.no_grad():
        return model.head.log_probs(decode(model, batch.src, batch.src_keep, batch.tgt_in))


def test_labels_are_the_inputs_one_step_earlier() -> None:
    batch = batch_of(LENGTHS)
    for row, (_, length) in enumerate(LENGTHS):
        assert int(batch.tgt_in[row, 0]) == SPECIAL.bos
        assert torch.equal(batch.tgt_in[row, 1 : length + 1], batch.tgt_out[row, :length])
        assert int(batch.tgt_out[row, length]) == SPECIAL.eos


class Copier(Model):
    """Says the token that it reads, with all its confidence: right only if labels are not shifted."""

    def __init__(self, sharpness: float = 50.0) -> None:
        super().__init__()
        self.head = LinearHead(nn.Parameter(sharpness * torch.eye(VOCAB)))

    def forward(self, batch: Batch) -> Output:
        return Output(nn.functional.one_hot(batch.tgt_in, VOCAB).float())


def test_a_model_that_copies_its_current_input_does_not_reach_loss_zero() -> None:
    batch = batch_of([(3, 6), (2, 6)])
    batch.tgt_in[:, 1:] = torch.arange(6, 12)
    batch.tgt_out[:, :-1] = torch.arange(6, 12)
    found = teacher().validation_loss(Copier(), batch)
    assert found.nll / found.weight == pytest.approx(50, rel=1e-4)
    unshifted = replace(batch, tgt_out=batch.tgt_in)
    assert teacher().validation_loss(Copier(), unshifted).nll == pytest.approx(0, abs=1e-6)


def test_a_config_builds_what_plain_arguments_build() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    config = {"smoothing": {"kind": "others", "amount": 0.2}, "noise": [{"kind": "drop", "rate": 0.5}]}
    reports = []
    for objective in (teacher(**config), TeacherForcing(others(VOCAB, 0.2), noise=[Drop(rate=0.5)])):
        torch.manual_seed(3)
        reports.append(objective.training_loss(model, batch, 1))
    assert torch.equal(reports[0].sum, reports[1].sum)
    assert reports[0].nll == reports[1].nll


def test_a_fresh_model_knows_nothing() -> None:
    """-log p of a token is about log V; the head's weights are N(0, 1/d), so it is not exactly that."""
    torch.manual_seed(0)
    model = build_model(small_config(d_model=64, num_heads=4), 500, 500, SPECIAL.pad)
    batch = batch_of([(9, 9)] * 20, vocab=500)
    objective = ObjectiveConfig().build(500, SPECIAL, never)
    report = objective.validation_loss(model, batch)
    assert report.weight == 200
    assert abs(float(report.nll / report.weight) - math.log(500)) < 0.8


def test_a_head_of_zeros_gives_log_v() -> None:
    model = small_model(share_embeddings="none")
    nn.init.zeros_(output_matrix(model.head))
    report = teacher().training_loss(model, batch_of(LENGTHS), 1)
    assert report.nll / report.weight == pytest.approx(math.log(VOCAB), rel=1e-6)
    assert float(report.sum.detach()) / report.weight == pytest.approx(math.log(VOCAB), rel=1e-6)


def test_validation_is_the_likelihood_of_the_labels_without_padding() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    log_probs = token_log_probs(model, batch)
    wanted = 0.0
    for row, (_, length) in enumerate(LENGTHS):
        for step in range(length + 1):
            wanted -= float(log_probs[row, step, batch.tgt_out[row, step]])
    report = teacher().validation_loss(model, batch)
    assert report.nll == pytest.approx(wanted, rel=1e-5)
    assert float(report.sum.detach()) == pytest.approx(wanted, rel=1e-5)
    assert report.weight == sum(length + 1 for _, length in LENGTHS)


def test_training_is_the_smoothed_loss_and_still_reports_the_plain_one() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    report = teacher(smoothing={"kind": "others", "amount": 0.3}).training_loss(model, batch, 1)
    counts = batch.tgt_weight > 0
    wanted, nll = smoothed_cross_entropy(
        token_log_probs(model, batch)[counts], batch.tgt_out[counts], others(VOCAB, 0.3)
    )
    assert float(report.sum.detach()) == pytest.approx(float(wanted), rel=1e-5)
    assert report.nll == pytest.approx(float(nll), rel=1e-5)
    assert abs(float(report.nll) - float(wanted)) > 0.1


def gradient(model: Transformer, *reports: LossReport) -> list[Tensor]:
    model.zero_grad()
    for report in reports:
        report.sum.backward()
    return [gradient_of(parameter).clone() for parameter in model.parameters()]


@pytest.mark.parametrize("smoothing", ["none", "others", "confidence_penalty"])
def test_a_batch_is_the_sum_of_its_halves(smoothing: str) -> None:
    """Losses, weights and gradients: so it does not matter how an update is cut into batches."""
    model, batch, objective = small_model(), batch_of(LENGTHS), teacher(smoothing=smoothing)
    whole = objective.training_loss(model, batch, 1)
    parts = [objective.training_loss(model, half, 1) for half in batch.split()]
    assert float(whole.sum.detach()) == pytest.approx(sum(float(part.sum.detach()) for part in parts), rel=1e-5)
    assert whole.nll == pytest.approx(sum(float(part.nll) for part in parts), rel=1e-5)
    assert whole.weight == sum(part.weight for part in parts)
    for one, two in zip(gradient(model, whole), gradient(model, *parts), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_weights_count_tokens_more_or_less() -> None:
    """Twice the weight counts twice, weight 0 is not there at all."""
    model, batch, objective = small_model(), batch_of([(3, 4), (2, 4)]), teacher()
    first, second = (objective.training_loss(model, half, 1) for half in batch.split())
    weights = batch.tgt_weight * torch.tensor([[2.0], [0.5]])
    found = objective.training_loss(model, replace(batch, tgt_weight=weights), 1)
    assert found.weight == 2 * first.weight + 0.5 * second.weight
    assert float(found.sum.detach()) == pytest.approx(float((2 * first.sum + 0.5 * second.sum).detach()), rel=1e-5)
    assert found.nll == pytest.approx(float(2 * first.nll + 0.5 * second.nll), rel=1e-5)
    only = objective.training_loss(model, replace(batch, tgt_weight=batch.tgt_weight * torch.tensor([[1.0], [0.0]])), 1)
    assert float(only.sum.detach()) == pytest.approx(float(first.sum.detach()), rel=1e-5)
    assert only.weight == first.weight


def test_no_gradient_comes_from_padding() -> None:
    """The row of the padding in the source's embedding stays as it is."""
    model = small_model(share_embeddings="target")
    teacher().training_loss(model, batch_of(LENGTHS), 1).sum.backward()
    gradients = model.src_embedder.tokens.weight.grad
    assert gradients is not None
    assert not gradients[SPECIAL.pad].any()
    assert gradients[SPECIAL.eos].any()


def test_the_unigram_background_is_how_often_tokens_occur() -> None:
    counts = torch.zeros(VOCAB)
    counts[[SPECIAL.eos, 7, 9]] = torch.tensor([2.0, 1.0, 5.0])
    smoothing = Unigram(amount=0.2).build(VOCAB, SPECIAL.pad, lambda: counts)
    assert smoothing.confidence == pytest.approx(0.8)
    assert smoothing.background[[SPECIAL.eos, 7, 9]].tolist() == pytest.approx([0.05, 0.025, 0.125])
    assert float(smoothing.background.sum()) == pytest.approx(0.2)


def test_tokens_are_counted_only_for_the_form_that_asks() -> None:
    NoSmoothing().build(VOCAB, SPECIAL.pad, never)
    with pytest.raises(AssertionError, match="only the unigram form"):
        teacher(smoothing="unigram")
