"""The first non-autoregressive Transformer (Gu et al. 2018): predict the length, then all tokens at once."""

from typing import Literal

from pydantic import Field

from qkv.functional.parallel.glancing import uniform_copy
from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.parallel.base import CopiedSource, LearnedQuery, Opening, ParallelModel
from qkv.models.parallel.length_predictor import LengthPredictor
from qkv.models.transformer.model import Transformer, TransformerParts

Inputs = Literal["copy", "queries"]


def opening(inputs: Inputs, d_model: int) -> Opening:
    """copy: the source, stretched evenly over the canvas. queries: one learned vector plus positions."""
    return CopiedSource(uniform_copy, with_end=False) if inputs == "copy" else LearnedQuery(d_model)


@decoders.register
class NatConfig(DecoderConfig):
    """All tokens at once on a canvas whose length is predicted from the source."""

    kind: Literal["nat"] = "nat"
    inputs: Inputs = "copy"
    """What the decoder reads: source embeddings, copied evenly, or learned queries."""
    length_weight: float = Field(default=0.1, ge=0)
    """Weight of the cross-entropy of the length in the loss."""

    @property
    def glances(self) -> bool:
        return True

    @property
    def predicts_length(self) -> bool:
        return True

    def build(self, parts: TransformerParts) -> Transformer:
        return NatModel(parts, opening(self.inputs, parts.d_model))


class NatModel(ParallelModel):
    """With a predictor of the length."""

    kind = "nat"

    def __init__(self, parts: TransformerParts, opening: Opening) -> None:
        super().__init__(parts, opening)
        self.length_predictor = LengthPredictor(parts.d_model)
