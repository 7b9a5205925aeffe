"""Linear layers in 16 bits on a CPU: what autocast computes, in shapes that come again."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from qkv.core.devices import CPU
from qkv.kernels.half.linears import ROWS, HalfLinears, comes_again, linear_dtype, products_in
from qkv.kernels.moment import Moment
from qkv.layers.feed_forward import FeedForward, ReluFeedForward


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 3, 4), (ROWS,), (ROWS + 1,), (3, ROWS)])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_rounded_inputs(shape: tuple[int, ...], bias: bool, low: torch.dtype) -> None:
    """Against products in float64 of what the inputs are in 16 bits; results are rounded once more."""
    x = torch.randn(*shape, 6).requires_grad_()
    layer = nn.Linear(6, 4, bias=bias)
    upstream = torch.randn(*shape, 4)
    leaves = [x, *layer.parameters()]
    with HalfLinears(low):
        y = layer(x)
    found = [y, *torch.autograd.grad(y, leaves, upstream)]
    wide = [leaf.detach().to(low).double().requires_grad_() for leaf in leaves]
    z = F.linear(wide[0], wide[1], wide[2] if bias else None)
    wanted = [z, *torch.autograd.grad(z, wide, upstream.to(low).double())]
    assert {result.dtype for result in found} == {torch.float32}
    rounding = torch.finfo(low).eps
    for result, exact in zip(found, wanted, strict=True):
        largest = float(exact.detach().abs().max())
        torch.testing.assert_close(result.double(), exact, rtol=2 * rounding, atol=4 * rounding * largest)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 7), (ROWS,), (3, ROWS - 1), (2, 0)])
def test_the_feed_forward_network_is_that_of_two_layers(shape: tuple[int, ...], low: torch.dtype) -> None:
    """The same numbers are rounded at the same places; only the gradient of the inner bias is summed otherwise."""
    network = ReluFeedForward(6, 24)
    for parameter in network.parameters():
        nn.init.normal_(parameter)
    x, upstream = torch.randn(*shape, 6).requires_grad_(), torch.randn(*shape, 6)
    leaves = [x, *network.parameters()]
    found = []
    for transform in (network.transform, lambda x: FeedForward.transform(network, x)):
        with HalfLinears(low):
            y = transform(x)
        found.append([y, *torch.autograd.grad(y, leaves, upstream)])
    for fused, plain in zip(*found, strict=True):
        assert fused.dtype == torch.float32
        scale = float(plain.detach().abs().max()) if plain.numel() else 0.0
        torch.testing.assert_close(fused, plain, rtol=0, atol=2 * torch.finfo(low).eps * scale)


@pytest.mark.parametrize(("dropout", "kept"), [(0.0, [torch.bfloat16]), (0.5, [torch.float32] * 2 + [torch.bfloat16])])
def test_how_often_the_hidden_layer_is_kept(dropout: float, kept: list[torch.dtype]) -> None:
    """With dropout in it, also for the backward passes of relu and of the dropout."""
    network, found = ReluFeedForward(6, 24, dropout), []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.shape == (ROWS, 24):
            found.append(tensor.dtype)
        return tensor

    with HalfLinears(torch.bfloat16), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(torch.randn(1, ROWS, 6))
    assert found == kept


def test_results_can_be_changed_in_place() -> None:
    layer, x = nn.Linear(3, 5), torch.randn(4, 3)
    with HalfLinears(torch.bfloat16):
        layer(x).relu_().sum().backward()
    assert layer.weight.grad is not None


def test_no_rows() -> None:
    layer = nn.Linear(3, 5)
    with HalfLinears(torch.bfloat16):
        y = layer(torch.empty(2, 0, 3))
    y.sum().backward()
    assert y.shape == (2, 0, 5)
    assert layer.weight.grad is not None
    assert not layer.weight.grad.any()


def test_only_linear_layers_are_in_16_bits_and_contexts_end() -> None:
    x = torch.randn(4, 4)
    assert linear_dtype(CPU) is None
    with products_in(CPU, torch.bfloat16):
        assert linear_dtype(CPU) == torch.bfloat16
        inside = x @ x
        with products_in(CPU, torch.float16):
            assert Moment.now(CPU).linears == torch.float16
        assert linear_dtype(CPU) == torch.bfloat16
    assert linear_dtype(CPU) is None
    assert torch.equal(inside, x @ x)


def test_a_context_holds_in_its_thread_only() -> None:
    """Another thread, such as one that translates, goes on in 32 bits."""
    network, x, found = ReluFeedForward(4, 8), torch.randn(2, 3, 4), []
    wanted = network(x)
    with HalfLinears(torch.bfloat16):
        other = threading.Thread(target=lambda: found.append((HalfLinears.current(), network(x))))
        other.start()
        other.join()
        assert not torch.equal(network(x), wanted)
    ((low, output),) = found
    assert low is None
    assert torch.equal(output, wanted)


def test_few_shapes_for_many_batches() -> None:
    """Each is at least as large, and none more than ROWS larger."""
    sizes = {rows: comes_again(rows) for rows in range(1, 5000)}
    assert all(rows <= size < rows + ROWS for rows, size in sizes.items())
    assert len(set(sizes.values())) < 30
