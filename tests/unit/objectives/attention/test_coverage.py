"""The coverage loss in training."""

import pytest
import torch

from qkv.functional.copying.coverage import coverage_loss
from qkv.objectives.attention.coverage import Coverage
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, small_model


def test_the_cost_is_the_mean_over_the_target_tokens() -> None:
    batch = batch_of([(4, 3), (5, 6)])
    torch.manual_seed(0)
    weights = torch.randn(2, 2, *batch.tgt_out.shape[1:], batch.src.shape[1]).double().softmax(-1)
    each = coverage_loss(weights.mean(1))
    wanted = [float(each[row, :count].mean()) for row, count in enumerate((4, 7))]
    assert Coverage().cost(weights, batch).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("head", ["linear", "pointer_generator"])
def test_it_is_added_and_falls(head: str) -> None:
    model, batch = small_model(head=head), batch_of([(4, 6), (5, 7)])
    config = ObjectiveConfig.model_validate({"attention": [{"kind": "coverage", "layers": [2], "weight": 3.0}]})
    plain, covered = (each.build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB)) for each in (ObjectiveConfig(), config))

    def cost() -> torch.Tensor:
        return covered.training_loss(model, batch, 1).sum - plain.training_loss(model, batch, 1).sum

    first = cost()
    assert float(first.detach()) > 0
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        cost().backward()
        optimizer.step()
    assert float(cost().detach()) < float(first.detach())
