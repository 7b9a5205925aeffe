"""DA-Transformer (Huang et al. 2022): a graph with more vertices than an output has tokens; an output is a path."""

from math import sqrt
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from qkv.core.shapes import Decoded, TgtIds
from qkv.kernels.dag import Lengths, LinkScores, batched_transitions
from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.decoders.nat import Inputs, opening
from qkv.models.parallel.base import EncodedSource, Opening, StretchedModel, stretched
from qkv.models.transformer.model import Transformer, TransformerParts
from qkv.text.special import SPECIAL

ENDS = 2
"""The first and the last vertex emit nothing: paths begin and end there."""


@decoders.register
class DagConfig(DecoderConfig):
    """One pass gives every vertex of a graph its token and its links to later ones; an output is a path through it."""

    kind: Literal["dag"] = "dag"
    factor: float = Field(default=4.0, ge=1, le=100)
    """Vertices per source token, END included. Targets that are too long are left out and counted."""
    inputs: Inputs = "copy"
    """What the decoder reads: source embeddings, copied evenly, or learned queries."""

    @property
    def glances(self) -> bool:
        return True

    @property
    def sums_paths(self) -> bool:
        return True

    def longest_canvas(self, src_tokens: int, tgt_tokens: int) -> int:
        return stretched(src_tokens, self.factor, ENDS)

    def build(self, parts: TransformerParts) -> Transformer:
        return DagModel(parts, opening(self.inputs, parts.d_model), self.factor)


class Transitions(nn.Module):
    """E = softmax over later vertices of (W_q h_i) · (W_k h_j) / sqrt(d)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)

    def forward(self, decoded: Decoded, lengths: Lengths) -> LinkScores:
        """log E of graphs of these lengths."""
        scores = self.query(decoded) @ self.key(decoded).transpose(1, 2) / sqrt(decoded.shape[-1])
        return batched_transitions(scores, lengths)


class DagModel(StretchedModel):
    """Its canvas is the vertices; the first and the last read the start symbol and END."""

    kind = "dag"

    def __init__(self, parts: TransformerParts, opening: Opening, factor: float) -> None:
        super().__init__(parts, opening, factor, ENDS)
        self.transitions = Transitions(parts.d_model)

    def fill(self, tgt_in: TgtIds, source: EncodedSource) -> Decoded:
        return super().fill(_with_ends(tgt_in), source)


def _with_ends(tgt_in: Tensor) -> Tensor:
    last = (tgt_in != SPECIAL.pad).sum(dim=1, keepdim=True) - 1
    at = torch.arange(tgt_in.shape[1], device=tgt_in.device)
    return torch.where(at == last, SPECIAL.eos, torch.where(at == 0, SPECIAL.bos, tgt_in))
