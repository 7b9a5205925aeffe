"""Emit long and cut: a canvas that is long enough, of which everything after the first END is ignored."""

from typing import Literal

from pydantic import Field

from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.decoders.nat import Inputs, opening
from qkv.models.parallel.base import StretchedModel, stretched
from qkv.models.transformer.model import Transformer, TransformerParts


@decoders.register
class CanvasConfig(DecoderConfig):
    """All tokens at once on a canvas of ceil(`factor` x source tokens) + `extra` positions; the output ends at END."""

    kind: Literal["canvas"] = "canvas"
    factor: float = Field(default=1.5, gt=0, le=100)
    """Positions per source token, END included. Targets that are too long are cut and counted."""
    extra: int = Field(default=5, ge=0, le=100_000)
    """Additional positions."""
    tail: float = Field(default=0.1, ge=0, le=1)
    """Weight in the loss of each END after the first one."""
    inputs: Inputs = "copy"
    """What the decoder reads: source embeddings, copied evenly, or learned queries."""

    def longest_canvas(self, src_tokens: int, tgt_tokens: int) -> int:
        return stretched(src_tokens, self.factor, self.extra)

    def build(self, parts: TransformerParts) -> Transformer:
        return CanvasModel(parts, opening(self.inputs, parts.d_model), self.factor, self.extra)


class CanvasModel(StretchedModel):
    """Its output ends at the first END."""

    kind = "canvas"
