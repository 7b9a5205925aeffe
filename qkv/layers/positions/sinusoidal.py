"""Sinusoidal positions, section 3.5 of the paper; any length."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.core.devices import by_hand
from qkv.functional.positions import sinusoidal
from qkv.layers.positions.base import Positions, PositionsConfig, positions


@positions.register
class SinusoidalConfig(PositionsConfig):
    """The sines and cosines of the paper; any length."""

    kind: Literal["sinusoidal"] = "sinusoidal"

    def build(self, d_model: int, num_heads: int, causal: bool) -> "Sinusoidal":
        return Sinusoidal(d_model)


class Sinusoidal(Positions):
    """x + PE(pos). On a CPU the rows used so far are cached in a table.

    Examples:
        >>> import torch
        >>> from qkv import Sinusoidal
        >>> Sinusoidal(d_model=8).embed(torch.zeros(1, 2, 8), torch.arange(2))[0, 0]
        tensor([0., 1., 0., 1., 0., 1., 0., 1.])
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self._table = torch.empty(0, d_model)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        if not by_hand(x):
            # A table would have to be waited for: how many rows it needs is known on the device only.
            return x + sinusoidal(pos, self.d_model, x.dtype)
        if pos.numel() == 1:
            # One new token: indexing a row is faster than an embedding lookup.
            at = int(pos)
            return x + self._waves(at + 1, x)[at]
        longest = int(pos.amax()) + 1 if pos.numel() else 0
        return x + F.embedding(pos, self._waves(longest, x))

    def _waves(self, count: int, like: Tensor) -> Tensor:
        """At least the first `count` rows of PE."""
        table = self._table
        if len(table) < count or table.dtype != like.dtype or table.device != like.device:
            positions = torch.arange(max(count, 2 * len(table)), device=like.device)
            self._table = table = sinusoidal(positions, self.d_model, like.dtype)
        return table
