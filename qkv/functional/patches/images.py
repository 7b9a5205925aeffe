"""Square patches of images, as a Vision Transformer reads them (Dosovitskiy et al. 2021)."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

Images = Float[Tensor, "B channels height width"]
ImagePatches = Float[Tensor, "B patches values"]
Grid = tuple[int, int]
"""Rows and columns of patches."""


def patch_grid(height: int, width: int, size: int) -> Grid:
    """(h / P, w / P), the number of patches down and across; a size that P does not divide is an error."""
    if height % size or width % size:
        raise ValueError(f"an image of {height} x {width} pixels cannot be cut into patches of {size} x {size}")
    return height // size, width // size


def patchify(images: Images, size: int) -> ImagePatches:
    """[B, C, h, w] → [B, (h / P)(w / P), C P²]: the patches row by row, each in the order of a convolution's kernel.

    So a linear map of the patches is the convolution of kernel and stride P with the same weights.
    """
    _, channels, height, width = images.shape
    rows, columns = patch_grid(height, width, size)
    cut = images.reshape(-1, channels, rows, size, columns, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(-1, rows * columns, channels * size**2)


def unpatchify(patches: ImagePatches, size: int, grid: Grid) -> Images:
    """The inverse of `patchify`."""
    rows, columns = grid
    channels = patches.shape[2] // size**2
    cut = patches.reshape(-1, rows, columns, channels, size, size)
    return cut.permute(0, 3, 1, 4, 2, 5).reshape(-1, channels, rows * size, columns * size)


def interpolate_positions(
    table: Float[Tensor, "patches D"], grid: Grid, new_grid: Grid
) -> Float[Tensor, "new_patches D"]:
    """Position vectors of `grid` for `new_grid`: bicubic over both axes (a = -0.75), pixel centres at i + 1/2.

    An image of another size then shows the model the same places, finer or coarser.
    """
    if new_grid == grid:
        return table
    image = table.T.reshape(1, -1, *grid)
    finer = F.interpolate(image, size=new_grid, mode="bicubic", align_corners=False)
    return finer[0].flatten(1).T
