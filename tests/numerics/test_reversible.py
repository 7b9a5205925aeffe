"""Reversible steps: the way back, gradients as autograd's own, and nothing kept but the result."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from qkv.core.devices import CPU
from qkv.kernels.dropout import dropout
from qkv.kernels.half.linears import linear_dtype, products_in
from qkv.kernels.recompute import Branch, Step, reversible, undo
from tests.support.memory import saved_bytes

WIDTH = 6


class Sublayer(nn.Module):
    """LN, a linear map, tanh, dropout; also looks at something from outside."""

    def __init__(self, outside: Tensor, rate: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.outside = outside
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return dropout(torch.tanh(self.linear(self.norm(x)) + self.outside), self.rate)


def sublayers(count: int, rate: float = 0.3, shared: bool = False) -> tuple[list[Sublayer], Tensor, Tensor]:
    """Some of them, what they all look at, and a pair of streams that come from one input."""
    torch.manual_seed(count)
    outside = torch.randn(3, WIDTH, dtype=torch.float64, requires_grad=True)
    made = [Sublayer(outside, rate).double() for _ in range(1 if shared else count)]
    return made * (count if shared else 1), outside, torch.randn(2, 3, WIDTH, dtype=torch.float64, requires_grad=True)


def stored(a: Tensor, b: Tensor, branches: Sequence[Branch]) -> tuple[Tensor, Tensor]:
    """The same steps, with everything kept for autograd."""
    for branch in branches:
        a, b = b, a + branch(b)
    return a, b


def steps_of(branches: Sequence[Sublayer], outside: Tensor) -> list[Step]:
    return [Step(branch, [*branch.parameters(), outside]) for branch in branches]


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_the_inputs_are_found_again(count: int) -> None:
    branches, _, x = sublayers(count, rate=0.0)
    with torch.no_grad():
        a, b = stored(x, 2 * x, branches)
        assert not torch.allclose(a, x, atol=0.1)
        first, second = undo(a, b, branches)
    torch.testing.assert_close(first, x, rtol=0, atol=1e-12)
    torch.testing.assert_close(second, 2 * x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_outputs_and_gradients_equal_those_of_stored_activations(count: int, shared: bool) -> None:
    branches, outside, x = sublayers(count, shared=shared)
    leaves = [x, outside, *(p for branch in dict.fromkeys(branches) for p in branch.parameters())]
    found = []
    for run in (lambda a, b: reversible(a, b, steps_of(branches, outside)), lambda a, b: stored(a, b, branches)):
        torch.manual_seed(1)
        a, b = run(x, torch.sin(x))
        following = torch.rand(1)  # both leave the generator at the same place
        loss = (a * b).sin().sum() + b.sum()
        found.append([a, b, following, *torch.autograd.grad(loss, leaves), torch.rand(1)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_frozen_weights_and_inputs_get_no_gradient() -> None:
    branches, outside, x = sublayers(3)
    branches[1].requires_grad_(False)
    a, b = reversible(x.detach(), x.detach(), steps_of(branches, outside))
    (a + b).sum().backward()
    assert all(p.grad is None for p in branches[1].parameters())
    assert all(p.grad is not None for p in branches[0].parameters())
    assert x.grad is None


def test_what_is_kept_does_not_grow_with_the_depth() -> None:
    def kept(count: int, backwards: bool) -> int:
        branches, outside, x = sublayers(count)
        with saved_bytes() as sizes:
            if backwards:
                reversible(x, x, steps_of(branches, outside))
            else:
                stored(x, x, branches)
        return sum(sizes)

    assert kept(24, backwards=True) == kept(2, backwards=True) > 0
    assert kept(24, backwards=False) > 10 * kept(2, backwards=False)


def test_linear_layers_in_16_bits_are_so_again_in_the_backward_pass() -> None:
    linear = nn.Linear(WIDTH, WIDTH)
    seen: list[torch.dtype | None] = []

    def branch(x: Tensor) -> Tensor:
        seen.append(linear_dtype(CPU))
        return linear(x)

    x = torch.randn(3, WIDTH, requires_grad=True)
    with products_in(CPU, torch.bfloat16):
        a, b = reversible(x, x, [Step(branch, list(linear.parameters()))])
    (a + b).sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]


def test_the_precision_of_autocast_comes_back_in_the_backward_pass() -> None:
    linear = nn.Linear(WIDTH, WIDTH)
    seen: list[torch.dtype] = []

    def branch(x: Tensor) -> Tensor:
        y = linear(x)
        seen.append(y.dtype)
        return y.float()

    x = torch.randn(3, WIDTH, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        a, b = reversible(x, x, [Step(branch, list(linear.parameters()))])
    (a + b).sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]
    assert linear.weight.grad is not None
    assert linear.weight.grad.dtype == torch.float32
