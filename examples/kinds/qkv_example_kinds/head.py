"""An output head that mixes two distributions: what the vocabulary says, and a copy of what the source says."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.models.heads import NO_CONTEXT, Head, HeadConfig, HeadContext, heads


@heads.register
class PointerConfig(HeadConfig):
    """A token of the vocabulary, or one of the source (See et al. 2017); both sides share one vocabulary."""

    kind: Literal["pointer"] = "pointer"

    def build(self, embedding: nn.Parameter) -> "PointerHead":
        return PointerHead(embedding)


class PointerHead(Head):
    """p(y) = g softmax(W h)_y + (1 - g) Σ_{s: x_s = y} a_s, with g = sigmoid(w h + b) and cross-attention a"""

    needs_source = True
    needs_attention = True

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight
        self.gate = nn.Linear(weight.shape[1], 1)

    def scores(self, states: Tensor, context: HeadContext = NO_CONTEXT) -> Tensor:
        """[*batch, V], the logarithm of the mixture."""
        assert context.src is not None
        assert context.attention is not None
        gate = torch.sigmoid(self.gate(states))
        mixture = gate * F.linear(states, self.weight).softmax(dim=-1)
        mixture = mixture.scatter_add(-1, context.src, ((1 - gate) * context.attention).to(mixture.dtype))
        return mixture.clamp_min(torch.finfo(mixture.dtype).tiny).log()
