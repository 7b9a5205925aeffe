"""Activation checkpointing: the gradients are those of a pass that kept everything, in every precision."""

import copy

import pytest
import torch

from qkv.core.devices import CPU
from qkv.training.step.precision import Precision
from qkv.training.step.recompute import recompute_layers
from tests.support.small import batch_of, small_model
from tests.support.trained import teacher


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("positions", ["sinusoidal", "rope"])
def test_the_gradient_is_the_same(precision: str, positions: str) -> None:
    """The backward pass runs outside of the context that decides the precision, as in training."""
    model = small_model(dropout=0.1, positions=positions)
    recomputed = copy.deepcopy(model)
    recompute_layers(recomputed)
    gradients = []
    for each in (model, recomputed):
        torch.manual_seed(1)
        with Precision(precision, CPU).autocast():
            report = teacher().training_loss(each.train(), batch_of([(5, 4), (3, 6)]), 1)
        report.sum.backward()
        gradients.append([parameter.grad for parameter in each.parameters()])
    for wanted, found in zip(*gradients, strict=True):
        assert torch.equal(found, wanted)
