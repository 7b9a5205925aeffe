"""A learned vector per position, up to a maximum length."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.core.devices import by_hand
from qkv.core.errors import QkvError
from qkv.layers.positions.base import Positions, PositionsConfig, positions


@positions.register
class LearnedConfig(PositionsConfig):
    """One learned vector per position; longer inputs are rejected."""

    kind: Literal["learned"] = "learned"
    max_length: int = Field(default=1024, ge=1, le=1 << 30)
    """Number of positions, END included."""

    @property
    def limit(self) -> int | None:
        return self.max_length

    def build(self, d_model: int, num_heads: int, causal: bool) -> "Learned":
        return Learned(d_model, self.max_length)


class Learned(Positions):
    """x + P[pos], P is initialised from N(0, 1 / d_model)."""

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        self.reset_parameters(d_model**-0.5)

    def reset_parameters(self, std: float) -> None:
        nn.init.normal_(self.weight, std=std)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        # On an accelerator only the length is known without waiting; lengths are checked before (`Model.limits`).
        known = by_hand(x) and pos.numel() > 0
        longest = int(pos.max()) + 1 if known else x.shape[1]
        if longest > len(self.weight):
            raise QkvError(
                f"a sequence of {longest} tokens does not fit learned positions up to {len(self.weight)}; "
                "shorten it, raise model.positions.max_length and train again, or use sinusoidal positions"
            )
        return x + F.embedding(pos, self.weight)
