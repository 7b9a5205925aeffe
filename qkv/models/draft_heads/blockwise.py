"""Blockwise heads (Stern 2018): the state that predicts the next token also predicts the following ones."""

from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.layers.dropout import Dropout
from qkv.models.draft_heads.base import DraftHead, DraftHeadConfig, draft_heads


@draft_heads.register
class BlockwiseConfig(DraftHeadConfig):
    """One feed-forward network for each token after the next one."""

    kind: Literal["blockwise"] = "blockwise"
    heads: int = Field(default=4, ge=1, le=100)
    """Number of drafted tokens."""
    d_ff: int | None = Field(default=None, ge=1)
    """Inner width of each network; null: that of the model."""

    def build(self, d_model: int, num_heads: int, d_ff: int, dropout: float) -> "BlockwiseHeads":
        return BlockwiseHeads(self.heads, d_model, self.d_ff or d_ff, dropout)


class BlockwiseHeads(DraftHead):
    """h_j = h + max(0, h W_j + b_j) V_j + c_j, j = 1 ... k, read by the model's own output head.

    The model predicts y_t from h itself; head j predicts y_t+j. The second matrices are initialised to zero: every head
    starts by repeating the next token.
    """

    def __init__(self, heads: int, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, heads * d_ff)
        nn.init.xavier_uniform_(self.inner.weight)
        nn.init.zeros_(self.inner.bias)
        self.outer = nn.Parameter(torch.zeros(heads, d_ff, d_model))
        self.outer_bias = nn.Parameter(torch.zeros(heads, d_model))
        self.dropout = Dropout(dropout)

    @property
    def heads(self) -> int:
        return len(self.outer)

    def forward(self, decoded: Float[Tensor, "N D"]) -> Float[Tensor, "k N D"]:
        """What the output head reads, for the first to the last token that follows the next one."""
        hidden = self.dropout(F.relu(self.inner(decoded)))
        split = hidden.unflatten(-1, (self.heads, -1)).transpose(0, 1)
        return decoded + torch.baddbmm(self.outer_bias[:, None], split, self.outer)
