"""The conditional masked language model (Ghazvininejad et al. 2019): fill what is masked, seeing what is not."""

from typing import Literal

from pydantic import Field

from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.decoders.nat import NatModel
from qkv.models.parallel.base import Opening
from qkv.models.transformer.model import Transformer, TransformerParts


@decoders.register
class MaskPredictConfig(DecoderConfig):
    """Fills masked tokens, in as many passes as one likes: search.passes says how many when it is used."""

    kind: Literal["mask_predict"] = "mask_predict"
    length_weight: float = Field(default=0.1, ge=0)
    """How much the cross-entropy of the length counts beside that of the tokens."""

    @property
    def predicts_length(self) -> bool:
        return True

    def build(self, parts: TransformerParts) -> Transformer:
        return MaskPredictModel(parts, Opening())


class MaskPredictModel(NatModel):
    """Reads MASK where its canvas is open."""

    kind = "mask_predict"
