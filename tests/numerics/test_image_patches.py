"""Patches of images against loops and convolutions in float64, and positions at another size."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.functional.patches.images import interpolate_positions, patch_grid, patchify, unpatchify
from qkv.layers.patches import PatchEmbedding


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("height", "width", "size", "channels"), [(8, 8, 2, 1), (6, 9, 3, 3), (4, 4, 4, 2)])
def test_patches_are_cut_row_by_row(height: int, width: int, size: int, channels: int) -> None:
    images = draw(2, channels, height, width)
    patches = patchify(images, size)
    rows, columns = patch_grid(height, width, size)
    assert patches.shape == (2, rows * columns, channels * size**2)
    for row in range(rows):
        for column in range(columns):
            square = images[:, :, row * size : (row + 1) * size, column * size : (column + 1) * size]
            assert torch.equal(patches[:, row * columns + column], square.flatten(1))


@pytest.mark.parametrize(("height", "width", "size", "channels"), [(8, 8, 2, 1), (6, 9, 3, 3), (5, 5, 1, 2)])
def test_putting_the_patches_back_gives_the_image(height: int, width: int, size: int, channels: int) -> None:
    images = draw(2, channels, height, width)
    assert torch.equal(unpatchify(patchify(images, size), size, patch_grid(height, width, size)), images)


def test_a_linear_map_of_the_patches_is_a_convolution() -> None:
    images, kernel, bias = draw(2, 3, 6, 9), draw(5, 3, 3, 3, seed=1), draw(5, seed=2)
    ours = F.linear(patchify(images, 3), kernel.flatten(1), bias)
    convolved = F.conv2d(images, kernel, bias, stride=3)
    torch.testing.assert_close(ours, convolved.flatten(2).transpose(1, 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("height", "width"), [(7, 8), (8, 7), (3, 2)])
def test_a_size_that_patches_do_not_divide_is_refused(height: int, width: int) -> None:
    with pytest.raises(ValueError, match=f"an image of {height} x {width} pixels cannot be cut into patches of 2 x 2"):
        patchify(draw(1, 1, height, width), 2)


def cubic(distance: float, a: float = -0.75) -> float:
    """The kernel of cubic convolution (Keys 1981)."""
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0


def slowly_interpolated(table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
    def weights(size: int, new_size: int) -> Tensor:
        found = torch.zeros(new_size, size, dtype=torch.float64)
        for new in range(new_size):
            place = (new + 0.5) * size / new_size - 0.5
            for old in range(math.floor(place) - 1, math.floor(place) + 3):
                found[new, min(max(old, 0), size - 1)] += cubic(place - old)
        return found

    rows, columns = (weights(size, new) for size, new in zip(grid, new_grid, strict=True))
    image = table.view(*grid, -1)
    return torch.einsum("yi,xj,ijd->yxd", rows, columns, image).flatten(0, 1)


@pytest.mark.parametrize("new_grid", [(8, 8), (3, 7), (2, 2), (4, 5)])
def test_positions_are_interpolated_by_cubic_convolution(new_grid: tuple[int, int]) -> None:
    table = draw(20, 6)
    found = interpolate_positions(table, (4, 5), new_grid)
    torch.testing.assert_close(found, slowly_interpolated(table, (4, 5), new_grid), rtol=0, atol=1e-12)


def test_positions_of_the_same_grid_are_the_table_itself() -> None:
    table = draw(20, 6)
    assert interpolate_positions(table, (4, 5), (4, 5)) is table


@pytest.mark.parametrize("class_token", [True, False])
def test_the_embedding_adds_positions_behind_its_class_token(class_token: bool) -> None:
    embed = PatchEmbedding((4, 6), channels=2, size=2, d_model=5, class_token=class_token).double()
    images = draw(3, 2, 4, 6)
    found = embed(images)
    assert found.shape == (3, 6 + class_token, 5)
    assert embed(draw(3, 2, 8, 8)).shape == (3, 16 + class_token, 5)
    projected = embed.project(patchify(images, 2))
    torch.testing.assert_close(found[:, int(class_token) :], projected + embed.positions[int(class_token) :])
    if embed.class_token is not None:
        assert torch.equal(found[:, 0], (embed.class_token + embed.positions[0]).expand(3, -1))
        assert torch.equal(embed.positions_for((4, 4))[0], embed.positions[0])
