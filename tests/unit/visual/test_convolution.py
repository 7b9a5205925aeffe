"""Attention made of a convolution computes the same function, exactly in the limit of sharp heads."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.core.errors import QkvError
from qkv.visual.convolution import (
    Frame,
    QuadraticAttention,
    attention_from_convolution,
    one_hot_sharpness,
    quadratic_logits,
)

KERNELS: list[dict[str, Any]] = [
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 5, "padding": 2, "bias": False},
    {"kernel_size": 3, "padding": 2, "stride": 2},
    {"kernel_size": 3, "padding": "same", "dilation": 2},
    {"kernel_size": 4, "padding": "same", "dilation": 2},
    {"kernel_size": 2, "padding": "valid", "stride": 3, "dilation": 3},
    {"kernel_size": 3, "padding": 1, "groups": 2},
    {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
    {"kernel_size": 3, "padding": 2, "padding_mode": "circular", "stride": 2},
    {"kernel_size": 1, "stride": 2},
]
WIDTHS = [(4, 6), (6, 4), (2, 2)]


def same_function(convolution: nn.Conv1d | nn.Conv2d, x: Tensor, tolerance: float) -> None:
    """Outputs, and gradients to the input."""
    attention = attention_from_convolution(convolution)
    found, expected = attention(x), convolution(x)
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
    upstream = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(out, x, upstream)[0] for out in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("options", KERNELS, ids=str)
def test_it_is_the_convolution_exactly(options: dict[str, Any], widths: tuple[int, int]) -> None:
    torch.manual_seed(0)
    one, two = nn.Conv1d(*widths, **options), nn.Conv2d(*widths, **options)
    same_function(one, torch.randn(2, widths[0], 9, requires_grad=True), 3e-6)
    same_function(two.double(), torch.randn(2, widths[0], 7, 6, dtype=torch.float64, requires_grad=True), 1e-13)


def test_axes_may_differ_and_a_batch_is_not_needed() -> None:
    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 4, (3, 5), stride=(2, 1), padding=(0, 2), dilation=(1, 2)).double()
    same_function(convolution, torch.randn(3, 8, 11, dtype=torch.float64, requires_grad=True), 1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [3, 5])
def test_every_head_looks_at_one_point_and_every_point_has_a_head(size: int, dtype: torch.dtype) -> None:
    attention = attention_from_convolution(nn.Conv2d(2, 2, size, padding=size // 2).to(dtype))
    weights = attention.weights((12, 12))
    assert torch.equal(weights.amax(dim=-1), torch.ones_like(weights[..., 0]))
    assert torch.equal(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    query = weights[:, 0]  # its neighbourhood starts at the first corner
    assert torch.equal(query.sum(dim=0).view(12, 12)[:size, :size], torch.ones(size, size, dtype=dtype))


@pytest.mark.parametrize("size", [3, 5])
def test_the_error_falls_as_the_heads_become_sharper(size: int) -> None:
    torch.manual_seed(size)
    convolution = nn.Conv2d(8, 8, size, padding=size // 2, bias=False).double()
    x = torch.randn(1, 8, 12, 12, dtype=torch.float64)
    expected = convolution(x).detach()
    errors = []
    for sharpness in (1.0, 5.0, 10.0, 20.0, 46.0):
        found = attention_from_convolution(convolution, sharpness)(x).detach()
        errors.append(float((found - expected).norm() / expected.norm()))
    for error, published in zip(errors, [0.7, 3e-2, 2e-4, 1e-8, 1e-15], strict=True):
        assert published / 3 < error < 3 * published or error < 1e-15, errors
    assert all(blunt > sharp for blunt, sharp in pairwise(errors))


def test_the_sharpness_from_which_a_softmax_is_one_hot() -> None:
    assert one_hot_sharpness(torch.float32) == 104
    assert one_hot_sharpness(torch.float64) == 746
    for dtype, alpha in ((torch.float32, 104), (torch.float64, 746)):
        assert torch.softmax(torch.tensor([0.0, -alpha], dtype=dtype), 0)[1] == 0
        assert torch.tensor(-alpha + 1, dtype=dtype).exp() > 0


def test_logits_are_squared_distances_but_for_a_constant_of_the_head() -> None:
    q, k = torch.tensor([[0, 0], [3, 1]]), torch.tensor([[0, 0], [1, -2], [4, 4]])
    centres, sharpness = torch.randn(3, 2), torch.rand(3)
    logits = quadratic_logits(q, k, centres, sharpness)
    for head in range(3):
        for i in range(2):
            distances = [-sharpness[head] * (k[j] - q[i] - centres[head]).square().sum() for j in range(3)]
            difference = logits[head, i] - torch.stack(distances)
            torch.testing.assert_close(difference, difference[:1].expand(3), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dilation", [1, 3])
def test_a_causal_convolution_sees_what_stands_before(dilation: int) -> None:
    torch.manual_seed(0)
    convolution = nn.Conv1d(3, 5, 4, dilation=dilation).double()
    attention = attention_from_convolution(convolution, causal=True)
    x = torch.randn(2, 3, 10, dtype=torch.float64)
    expected = convolution(F.pad(x, (3 * dilation, 0)))
    torch.testing.assert_close(attention(x), expected, rtol=0, atol=1e-13)
    assert expected.shape[-1] == 10
    assert attention.centres.max() == 0
    reach = torch.autograd.functional.jacobian(lambda x: attention(x).sum(dim=1)[0], x)[:, 0].abs().sum(dim=1)
    assert not reach.triu(1).any()


def test_what_is_not_a_convolution_is_refused() -> None:
    with pytest.raises(QkvError, match=r"only nn.Conv1d and nn.Conv2d .* not Conv3d"):
        attention_from_convolution(nn.Conv3d(1, 1, 3))
    with pytest.raises(QkvError, match="leave padding out, or causal"):
        attention_from_convolution(nn.Conv1d(1, 1, 3, padding=1), causal=True)
    with pytest.raises(QkvError, match="leave padding out, or causal"):
        attention_from_convolution(nn.Conv2d(1, 1, 3), causal=True)


def test_its_places_can_be_learned() -> None:
    """A head that starts near its place finds it, by the gradient of what it should have seen."""
    torch.manual_seed(0)
    learner = QuadraticAttention(1, 1, 1, 1, Frame((2,), (2,), "constant", (2,), (2,), (1,)))
    with torch.no_grad():
        learner.centres.fill_(0.6)
        learner.value.fill_(1.0)
        learner.output.fill_(1.0)
    optimizer = torch.optim.Adam([learner.centres, learner.sharpness], lr=0.05)
    for _ in range(80):
        x = torch.randn(8, 1, 12)
        loss = (learner(x) - F.pad(x, (0, 1))[..., 1:]).square().mean()  # each place should show its right neighbour
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert abs(learner.centres.item() - 1) < 0.1
    assert learner.sharpness.item() > 2
