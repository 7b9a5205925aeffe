"""The conditional masked language model (Ghazvininejad et al. 2019): predict masked tokens from the others."""

from typing import Literal

from pydantic import Field

from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.decoders.nat import NatModel
from qkv.models.parallel.base import Opening
from qkv.models.transformer.model import Transformer, TransformerParts


@decoders.register
class MaskPredictConfig(DecoderConfig):
    """Predicts masked tokens, in several passes: search.passes sets their number."""

    kind: Literal["mask_predict"] = "mask_predict"
    length_weight: float = Field(default=0.1, ge=0)
    """Weight of the cross-entropy of the length in the loss."""

    @property
    def predicts_length(self) -> bool:
        return True

    def build(self, parts: TransformerParts) -> Transformer:
        return MaskPredictModel(parts, Opening())


class MaskPredictModel(NatModel):
    """Its decoder input is MASK at open positions."""

    kind = "mask_predict"
