"""CTC (Libovický & Helcl 2018): a canvas longer than the source, with blanks."""

from typing import Literal

from pydantic import Field

from qkv.functional.parallel.glancing import repetition
from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.parallel.base import CopiedSource, StretchedModel, stretched
from qkv.models.transformer.model import Transformer, TransformerParts


@decoders.register
class CtcConfig(DecoderConfig):
    """One pass over an upsampled source; repeated tokens and blanks collapse, so no length is predicted."""

    kind: Literal["ctc"] = "ctc"
    upsample: float = Field(default=2.0, ge=1, le=100)
    """Positions of the canvas per source token, END included. Targets that do not fit are left out and counted."""

    @property
    def own_ids(self) -> int:
        return 1

    @property
    def glances(self) -> bool:
        return True

    @property
    def sums_paths(self) -> bool:
        return True

    def longest_canvas(self, src_tokens: int, tgt_tokens: int) -> int:
        return stretched(src_tokens, self.upsample)

    def build(self, parts: TransformerParts) -> Transformer:
        return CtcModel(parts, CopiedSource(repetition, with_end=True), self.upsample)


class CtcModel(StretchedModel):
    """The last id of the output is the blank."""

    kind = "ctc"

    @property
    def blank(self) -> int:
        return self.head.vocab_size - 1
