"""The three places where positions act. A scheme overrides those it needs; this base is "no positions"."""

import torch
from torch import Tensor, nn

from qkv.config.base import Config, Kinds


class Positions(nn.Module):
    """Identity at all three places. Positions are absolute: `pos` is [T] or [B, T]."""

    max_length: int | None = None
    """How many positions there are; None: no limit."""

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """Add to the embedded tokens [B, T, D]."""
        return x

    def embed_one(self, x: Tensor, at: int) -> Tensor:
        """The same for one token a row [R, D], all at position `at`: what a decoder needs at each step."""
        return self.embed(x.unsqueeze(1), torch.tensor([at], device=x.device)).squeeze(1)

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """Turn queries or keys [B, H, T, E], each by its own positions."""
        return x

    def bias(self, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B|1, H, Q, K] to be added to the logits."""
        return None


class PositionsConfig(Config):
    """Where a token stands, told to the model."""

    @property
    def limit(self) -> int | None:
        """The longest sequence, END included; None: any length."""
        return None

    def build(self, d_model: int) -> Positions:
        raise NotImplementedError


positions = Kinds[PositionsConfig]("positions")
