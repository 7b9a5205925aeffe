"""Positions: each head prefers keys near its query, by a bell curve whose width it learns."""

from typing import Literal

import torch
from torch import Tensor, nn

from qkv import Positions, PositionsConfig, positions
from qkv.functional.positions import distances


@positions.register
class GaussianConfig(PositionsConfig):
    """A bell curve over the distance, of a width that each head learns; any length."""

    sees = "distances"
    on_logits = True
    kind: Literal["gaussian"] = "gaussian"

    def build(self, d_model: int, num_heads: int, causal: bool) -> "Gaussian":
        return Gaussian(num_heads)


class Gaussian(Positions):
    """softmax(Q K^T / sqrt(d_k) - (i - j)^2 / (2 w_h^2)), with w_h = exp(log_width_h)"""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.log_width = nn.Parameter(torch.linspace(0.0, 2.0, num_heads))

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B|1, H, Q, K]"""
        squares = distances(q_pos, k_pos)[:, None].to(q.dtype) ** 2
        return -squares / (2 * torch.exp(2 * self.log_width))[:, None, None]
