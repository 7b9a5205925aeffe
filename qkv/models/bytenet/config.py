"""The sizes of a ByteNet."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from qkv.models.bytenet.layers import ByteNetBlock, ByteNetDecoder, ByteNetEncoder
from qkv.models.bytenet.model import ByteNet
from qkv.models.config import models
from qkv.models.heads.linear import LinearHeadConfig
from qkv.models.stepwise import StepwiseConfig
from qkv.text import TokenizerPair


@models.register
class ByteNetConfig(StepwiseConfig):
    """ByteNet (Kalchbrenner et al. 2016): dilated convolutions, no attention; time linear in the length."""

    kind: Literal["bytenet"] = "bytenet"
    d_model: int = Field(default=256, ge=2, le=1 << 20)
    """Width of embeddings and states; even, since a convolution has half of it."""
    kernel: int = Field(default=3, ge=1, le=255)
    """Positions that one convolution reads; odd."""
    dilations: tuple[Annotated[int, Field(ge=1, le=1 << 16)], ...] = Field(default=(1, 2, 4, 8, 16), min_length=1)
    """Distance between these positions, block after block."""
    encoder_repeats: int = Field(default=1, ge=1, le=1000)
    """How often the encoder has all these blocks."""
    decoder_repeats: int = Field(default=1, ge=1, le=1000)
    """How often the decoder has all these blocks."""
    length_ratio: float = Field(default=1.2, ge=1, le=100, allow_inf_nan=False)
    """Columns of the encoder for each source token; output t reads column t."""

    @property
    def own_layers(self) -> int:
        return len(self.dilations) * (self.encoder_repeats + self.decoder_repeats)

    def build(self, tokenizers: TokenizerPair) -> ByteNet:
        tables = self.token_tables(tokenizers)
        return ByteNet(
            tables.src,
            tables.tgt,
            ByteNetEncoder(self._blocks(self.encoder_repeats)),
            ByteNetDecoder(self._blocks(self.decoder_repeats)),
            self.head.build(tables.out.weight),
            self.length_ratio,
            self.dropout,
        )

    def _blocks(self, repeats: int) -> list[ByteNetBlock]:
        return [
            ByteNetBlock(self.d_model, self.kernel, dilation, self.dropout) for dilation in self.dilations * repeats
        ]

    def state_size(self, src_length: int, tgt_length: int) -> int:
        # The last inputs of each block, and the columns of the source.
        inputs = self.decoder_repeats * sum(self.dilations) * (self.kernel - 1) * self.d_model // 2
        return inputs + int(self.length_ratio * src_length + 1) * self.d_model

    def overrides_for(self, d_model: int, d_ff: int, num_heads: int, layers: int) -> str | None:
        if self.d_model <= d_model and self.encoder_repeats + self.decoder_repeats <= 2:
            return None
        return f"model.d_model={d_model} model.encoder_repeats=1 model.decoder_repeats=1"

    @model_validator(mode="after")
    def _fits(self) -> "ByteNetConfig":
        if self.d_model % 2:
            raise ValueError(f"d_model ({self.d_model}) must be even: a convolution has half of it")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel ({self.kernel}) must be odd, so that the encoder reads as far left as right")
        if not isinstance(self.head, LinearHeadConfig):
            raise ValueError(f"head {self.head.kind} is for model.kind transformer or recurrent; use linear")
        return self
