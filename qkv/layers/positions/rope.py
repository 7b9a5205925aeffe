"""Rotary positions (Su et al. 2021): queries and keys are rotated by angles proportional to their positions."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from qkv.core.devices import by_hand
from qkv.functional.positions import rotary_angles
from qkv.kernels.positions import rotate_halves
from qkv.layers.positions.base import Positions, PositionsConfig, positions


@positions.register
class RopeConfig(PositionsConfig):
    """Rotated queries and keys, so that their product depends on their distance; any length."""

    sees = "distances"
    kind: Literal["rope"] = "rope"
    base: float = Field(default=10000.0, gt=1)
    """Base of the frequencies: the slowest pair of channels has a period of about 2 π base positions."""

    def problem(self, d_model: int, num_heads: int) -> str | None:
        width = d_model // num_heads
        if width % 2:
            return (
                f"rope turns pairs of channels, and the width of a head ({width}) is odd; change num_heads or d_model"
            )
        return None

    def build(self, d_model: int, num_heads: int, causal: bool) -> "Rope":
        return Rope(d_model // num_heads, self.base)


class Rope(Positions):
    """(R_i q_i) · (R_j k_j) = q_i · R_(j - i) k_j. Values are not rotated; cached keys are stored rotated.

    Examples:
        >>> import torch
        >>> from qkv import Rope
        >>> q = torch.randn(2, 4, 5, 16)  # [B, H, T, E]
        >>> Rope(head_width=16).rotate(q, torch.arange(5)).shape
        torch.Size([2, 4, 5, 16])
    """

    def __init__(self, head_width: int, base: float = 10000.0) -> None:
        super().__init__()
        if head_width % 2:
            raise ValueError(f"rotary positions need heads of an even width, not {head_width}")
        self.head_width, self.base = head_width, base
        self._waves = torch.empty(0, head_width)
        """Row p: the cosines of position p, then its sines. It grows as needed."""

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        if by_hand(x):
            longest = int(pos.amax()) + 1 if pos.numel() else 0
            waves = F.embedding(pos, self._table(longest, x))
        else:  # how many rows a table needs is known on the device only
            waves = self._rows(pos, x.dtype)
        cos, sin = (waves if pos.dim() == 1 else waves[:, None]).chunk(2, dim=-1)
        return rotate_halves(x, cos, sin)

    def _table(self, count: int, like: Tensor) -> Tensor:
        """At least the first `count` rows."""
        table = self._waves
        if len(table) < count or table.dtype != like.dtype or table.device != like.device:
            every = torch.arange(max(count, 2 * len(table)), device=like.device)
            self._waves = table = self._rows(every, like.dtype)
        return table

    def _rows(self, pos: Tensor, dtype: torch.dtype) -> Tensor:
        angles = rotary_angles(pos, self.head_width, self.base)
        return torch.cat([angles.cos(), angles.sin()], dim=-1).to(dtype)
