"""Layer norm against its formula and PyTorch's; the fused residual norm against its slow twin."""

import pytest
import torch
from torch import Tensor

from qkv.functional.norm import layer_norm, post_norm, rms_norm
from qkv.kernels.dropout import dropout
from qkv.kernels.norm import residual_norm


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)


@pytest.mark.parametrize("shape", [(1, 2), (3, 4, 8), (2, 1, 3, 5)])
def test_layer_norm_equals_the_built_in(shape: tuple[int, ...]) -> None:
    x, gain, bias = draw(*shape), draw(shape[-1], seed=1), draw(shape[-1], seed=2)
    expected = torch.nn.functional.layer_norm(x, shape[-1:], gain, bias, 1e-5)
    assert torch.allclose(layer_norm(x, gain, bias), expected, rtol=0, atol=1e-10)
    plain = torch.nn.functional.layer_norm(x, shape[-1:], None, None, 1e-5)
    assert torch.allclose(layer_norm(x, None, None), plain, rtol=0, atol=1e-10)


def test_layer_norm_is_blind_to_scale_and_shift() -> None:
    x, gain, bias = draw(4, 16), draw(16, seed=1), draw(16, seed=2)
    plain = layer_norm(x, gain, bias, eps=0.0)
    assert torch.allclose(layer_norm(3 * x + 5, gain, bias, eps=0.0), plain, rtol=0, atol=1e-10)
    assert not torch.allclose(layer_norm(-x, gain, bias, eps=0.0), plain)


def test_layer_norm_divides_by_the_biased_deviation() -> None:
    normal = layer_norm(torch.tensor([[1.0, 3.0]], dtype=torch.float64), None, None, eps=0.0)
    assert torch.allclose(normal, torch.tensor([[-1.0, 1.0]], dtype=torch.float64), rtol=0, atol=1e-12)


def test_a_constant_row_is_finite() -> None:
    assert not layer_norm(torch.full((2, 4), 7.0), None, None).any()


def test_rms_norm_equals_the_built_in() -> None:
    x, gain = draw(3, 8), draw(8, seed=1)
    expected = torch.nn.functional.rms_norm(x, (8,), gain, 1e-5)
    assert torch.allclose(rms_norm(x, gain), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 8), (7, 33)])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_residual_norm_equals_its_twin(shape: tuple[int, ...], rate: float) -> None:
    x, y, gain, bias = draw(*shape), draw(*shape, seed=1), draw(shape[-1], seed=2), draw(shape[-1], seed=3)
    torch.manual_seed(4)
    fast = residual_norm(x, y, gain, bias, rate)
    torch.manual_seed(4)
    slow = post_norm(x, dropout(y, rate), gain, bias)
    assert torch.allclose(fast, slow, rtol=0, atol=1e-10)
    upstream = torch.randn_like(fast)
    leaves = (x, y, gain, bias)
    for found, expected in zip(
        torch.autograd.grad(fast, leaves, upstream), torch.autograd.grad(slow, leaves, upstream), strict=True
    ):
        assert torch.allclose(found, expected, rtol=0, atol=1e-10)


def test_residual_norm_passes_gradcheck() -> None:
    def run(x: Tensor, added: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        torch.manual_seed(0)
        return residual_norm(x, added, weight, bias, rate=0.4)

    assert torch.autograd.gradcheck(run, (draw(3, 5), draw(3, 5, seed=1), draw(5, seed=2), draw(5, seed=3)))


def test_residual_norm_of_mixed_precision_equals_the_separate_steps() -> None:
    x, gain, bias = torch.randn(4, 8), torch.randn(8), torch.randn(8)
    y = torch.randn(4, 8).to(torch.bfloat16)
    assert torch.allclose(residual_norm(x, y, gain, bias), post_norm(x, y.float(), gain, bias), atol=1e-5)
