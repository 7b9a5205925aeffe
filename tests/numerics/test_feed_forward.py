"""The feed-forward networks against loops over positions and channels."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.functional.feed_forward import feed_forward_gelu, feed_forward_relu, feed_forward_swiglu

WIDTH, INNER = 3, 5


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def product(weight: Tensor, x: list[float], bias: Tensor | None = None) -> list[float]:
    offsets = [0.0] * len(weight) if bias is None else bias.tolist()
    return [
        sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight.tolist(), offsets, strict=True)
    ]


def gelu(z: float) -> float:
    return z * (1 + math.erf(z / math.sqrt(2))) / 2


@pytest.mark.parametrize(
    ("network", "activation"), [(feed_forward_relu, lambda z: max(0.0, z)), (feed_forward_gelu, gelu)]
)
@pytest.mark.parametrize("shape", [(1, 1), (2, 4)])
def test_two_products_and_an_activation(
    network: Callable[..., Tensor], activation: Callable[[float], float], shape: tuple[int, ...]
) -> None:
    x = draw(*shape, WIDTH, seed=0)
    w1, b1, w2, b2 = draw(INNER, WIDTH, seed=1), draw(INNER, seed=2), draw(WIDTH, INNER, seed=3), draw(WIDTH, seed=4)
    out = network(x, w1, b1, w2, b2).flatten(0, -2)
    for found, row in zip(out.tolist(), x.flatten(0, -2).tolist(), strict=True):
        expected = product(w2, [activation(z) for z in product(w1, row, b1)], b2)
        assert found == pytest.approx(expected, abs=1e-10)
    assert torch.autograd.gradcheck(network, (x, w1, b1, w2, b2))


def test_swiglu_gates_one_product_by_another() -> None:
    x = draw(2, 4, WIDTH, seed=0)
    gate, up, down = draw(INNER, WIDTH, seed=1), draw(INNER, WIDTH, seed=2), draw(WIDTH, INNER, seed=3)
    out = feed_forward_swiglu(x, gate, up, down).flatten(0, -2)
    for found, row in zip(out.tolist(), x.flatten(0, -2).tolist(), strict=True):
        inner = [z / (1 + math.exp(-z)) * u for z, u in zip(product(gate, row), product(up, row), strict=True)]
        assert found == pytest.approx(product(down, inner), abs=1e-10)


def test_every_position_is_on_its_own() -> None:
    x = draw(1, 6, WIDTH, seed=0)
    weights = draw(INNER, WIDTH, seed=1), None, draw(WIDTH, INNER, seed=3), None
    together = feed_forward_relu(x, *weights)
    alone = torch.cat([feed_forward_relu(x[:, i : i + 1], *weights) for i in range(6)], dim=1)
    assert torch.allclose(together, alone, rtol=0, atol=1e-12)
