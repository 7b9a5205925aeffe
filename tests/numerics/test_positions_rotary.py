"""Rotary positions: products depend on distances, norms stay, both orders of channels are one rotation."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.functional.positions import rotary_angles, rotate_halves, rotate_pairs
from qkv.kernels import positions as fast
from qkv.layers.positions.rope import Rope

WIDTH = 8
POSITIONS = torch.tensor([0, 1, 2, 7, 300, 5000])


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 3, len(POSITIONS), WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def waves(pos: Tensor) -> tuple[Tensor, Tensor]:
    angles = rotary_angles(pos, WIDTH)
    return angles.cos(), angles.sin()


def test_a_pair_is_turned_by_its_angle(x: Tensor) -> None:
    turned = rotate_pairs(x, *waves(POSITIONS))
    for t, p in enumerate(POSITIONS.tolist()):
        for i in range(WIDTH // 2):
            angle = p * 10000 ** (-2 * i / WIDTH)
            a, b = x[0, 1, t, 2 * i], x[0, 1, t, 2 * i + 1]
            expected = torch.stack(
                [a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)]
            )
            torch.testing.assert_close(turned[0, 1, t, 2 * i : 2 * i + 2], expected, rtol=0, atol=1e-9)


def test_halves_are_pairs_in_another_order(x: Tensor) -> None:
    order = torch.cat([torch.arange(0, WIDTH, 2), torch.arange(1, WIDTH, 2)])
    turned = rotate_halves(x[..., order], *waves(POSITIONS))
    torch.testing.assert_close(turned, rotate_pairs(x, *waves(POSITIONS))[..., order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", [rotate_pairs, rotate_halves])
def test_position_zero_changes_nothing_and_no_position_changes_the_norm(x: Tensor, form: Callable[..., Tensor]) -> None:
    turned = form(x, *waves(POSITIONS))
    assert torch.equal(turned[..., 0, :], x[..., 0, :])
    assert not torch.allclose(turned[..., 1, :], x[..., 1, :])
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


@pytest.mark.parametrize("form", [rotate_pairs, rotate_halves])
def test_a_product_depends_on_the_distance_only(x: Tensor, form: Callable[..., Tensor]) -> None:
    q, k = x[:1, :1, :1], x[1:, :1, :1]

    def product(p: int, s: int) -> float:
        turned = (form(y, *waves(torch.tensor([at]))) for y, at in ((q, p), (k, s)))
        return float((next(turned) * next(turned)).sum())

    assert product(5, 2) == pytest.approx(product(1005, 1002), abs=1e-9)
    assert product(5, 2) != pytest.approx(product(5, 3), abs=1e-3)


def test_the_layer_keeps_a_table_that_grows(x: Tensor) -> None:
    rope = Rope(WIDTH)
    for pos in (torch.arange(len(POSITIONS)), POSITIONS, torch.stack([POSITIONS, POSITIONS + 9])):
        cos, sin = waves(pos if pos.dim() == 1 else pos[:, None])
        torch.testing.assert_close(rope.rotate(x, pos), rotate_halves(x, cos, sin), rtol=0, atol=1e-12)
    torch.testing.assert_close(rope.rotate(x.float(), POSITIONS), rope.rotate(x, POSITIONS).float())


@pytest.mark.parametrize("rows", [(2, 3), (1, 1), (0, 3)])
def test_the_kernel_turns_like_the_equation_forwards_and_back(rows: tuple[int, int]) -> None:
    """Also for what it gets in practice: a slice of wider rows, with the heads beside each other."""
    random = torch.Generator().manual_seed(1)
    wide = torch.randn(rows[0], len(POSITIONS), 2, rows[1], WIDTH, dtype=torch.float64, generator=random)
    upstream = torch.randn(*rows, len(POSITIONS), WIDTH, dtype=torch.float64, generator=random)
    found = []
    for form in (rotate_halves, fast.rotate_halves):
        x = wide.clone().requires_grad_()
        turned = form(x[:, :, 1].transpose(1, 2), *waves(POSITIONS))
        found.append((turned, *torch.autograd.grad(turned, x, upstream)))
    for plain, kernel in zip(*found, strict=True):
        torch.testing.assert_close(kernel, plain, rtol=0, atol=1e-12)


def test_the_gradient_of_the_kernel(x: Tensor) -> None:
    cos, sin = waves(POSITIONS)
    assert torch.autograd.gradcheck(lambda x: fast.rotate_halves(x, cos, sin), (x.requires_grad_(),))
    assert torch.autograd.gradgradcheck(lambda x: fast.rotate_halves(x, cos, sin) ** 2, (x,))
