"""Images to vectors: patches, a class token, learned positions."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.functional.patches.images import Grid, Images, interpolate_positions, patch_grid, patchify
from qkv.layers.dropout import Dropout

STD = 0.02
"""Standard deviation of new position vectors, as published."""


class PatchEmbedding(nn.Module):
    """Dropout([class token; patches W + b] + positions), with learned positions.

    An image of another size gets interpolated positions, as long as patches fit it.

    Args:
        image_size: height and width of the images that it is made for.
        channels: 1 for grey, 3 for colour.
        size: height and width of a patch.
        d_model: width of the vectors.
        class_token: whether a learned vector stands before the patches, to gather what a classifier reads.
        dropout: dropout probability of the vectors.

    Examples:
        >>> import torch
        >>> from qkv import PatchEmbedding
        >>> embed = PatchEmbedding(image_size=(8, 8), channels=1, size=2, d_model=64)
        >>> embed(torch.randn(3, 1, 8, 8)).shape  # the class token and 4 x 4 patches
        torch.Size([3, 17, 64])
        >>> embed(torch.randn(3, 1, 8, 12)).shape
        torch.Size([3, 25, 64])
    """

    def __init__(
        self,
        image_size: tuple[int, int],
        channels: int,
        size: int,
        d_model: int,
        class_token: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.size = size
        self.grid = patch_grid(*image_size, size)
        self.project = nn.Linear(channels * size**2, d_model)
        self.class_token = nn.Parameter(torch.zeros(d_model)) if class_token else None
        self.positions = nn.Parameter(torch.empty(self.grid[0] * self.grid[1] + class_token, d_model))
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        nn.init.normal_(self.positions, std=STD)
        if self.class_token is not None:
            nn.init.zeros_(self.class_token)

    def forward(self, images: Images) -> Float[Tensor, "B S D"]:
        height, width = images.shape[2:]
        x = self.project(patchify(images, self.size))
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        return self.dropout(x + self.positions_for(patch_grid(height, width, self.size)))

    def positions_for(self, grid: Grid) -> Float[Tensor, "S D"]:
        """The vectors added to the tokens of images with `grid` patches; that of the class token is the same."""
        before = len(self.positions) - self.grid[0] * self.grid[1]
        places = interpolate_positions(self.positions[before:], self.grid, grid)
        return torch.cat([self.positions[:before], places])
