"""The sizes of a convolutional model."""

from typing import Literal

from pydantic import Field, model_validator

from qkv.layers.attention.recording import name_attentions
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.positions import AnyPositions
from qkv.layers.positions.learned import Learned, LearnedConfig
from qkv.models.base import MaxLengths
from qkv.models.config import CrossAttentionSize, models
from qkv.models.convolutional.layers import ConvolutionalDecoderLayer, ConvolutionalEncoder
from qkv.models.convolutional.model import ConvolutionalModel
from qkv.models.heads.linear import LinearHeadConfig
from qkv.models.stepwise import StepwiseConfig
from qkv.text import TokenizerPair

EMBEDDED = 0.1
"""Standard deviation of embeddings at the start, as in the paper.

Scores q·z are not divided by a root of the width: with larger embeddings a position would look at one word only.
"""


@models.register
class ConvolutionalConfig(StepwiseConfig):
    """ConvS2S (Gehring et al. 2017): gated convolutions, with attention in every decoder layer."""

    kind: Literal["convolutional"] = "convolutional"
    d_model: int = Field(default=256, ge=1, le=1 << 20)
    """Width of the embeddings and of the keys and values of attention."""
    width: int | None = Field(default=None, ge=1, le=1 << 20)
    """Width of the convolutions; default: d_model."""
    kernel: int = Field(default=3, ge=1, le=255)
    """Positions that one convolution reads; odd."""
    encoder_layers: int = Field(default=4, ge=1, le=1000)
    """Convolutions of the encoder."""
    decoder_layers: int = Field(default=3, ge=1, le=1000)
    """Convolutions of the decoder, each followed by attention to the source."""
    positions: AnyPositions = LearnedConfig()
    """Positions; only kinds that are added to the embeddings."""

    @property
    def own_layers(self) -> int:
        return self.encoder_layers + self.decoder_layers

    @property
    def cross_attention_size(self) -> CrossAttentionSize:
        return CrossAttentionSize(self.decoder_layers, heads=1)

    @property
    def limits(self) -> MaxLengths:
        return MaxLengths(self.positions.limit, self.positions.limit)

    def build(self, tokenizers: TokenizerPair) -> ConvolutionalModel:
        tables, width = self.token_tables(tokenizers), self.width or self.d_model
        src_positions = self.positions.build(self.d_model, 1, causal=False)
        tgt_positions = self.positions.build(self.d_model, 1, causal=True)
        for part in (tables.src, tables.tgt, src_positions, tgt_positions):
            if isinstance(part, TokenEmbedding | Learned):
                part.reset_parameters(EMBEDDED)
        model = ConvolutionalModel(
            tables.src,
            tables.tgt,
            src_positions,
            tgt_positions,
            ConvolutionalEncoder(self.d_model, width, self.kernel, self.encoder_layers, self.dropout),
            [
                ConvolutionalDecoderLayer(self.d_model, width, self.kernel, self.dropout)
                for _ in range(self.decoder_layers)
            ],
            width,
            self.head.build(tables.out.weight),
            self.dropout,
        )
        name_attentions(model)
        return model

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        if problem := self.positions.length_problem(max(longest_src, longest_tgt)):
            return problem
        return super().data_problem(longest_src, longest_tgt, shared_tokenizer)

    def state_size(self, src_length: int, tgt_length: int) -> int:
        # The last inputs of each layer, and keys and values of the source.
        width = self.width or self.d_model
        return self.decoder_layers * (self.kernel - 1) * width + 2 * self.d_model * src_length

    def overrides_for(self, d_model: int, d_ff: int, num_heads: int, layers: int) -> str | None:
        if max(self.d_model, self.width or 0) <= d_model and self.own_layers <= 2 * layers:
            return None
        return (
            f"model.d_model={d_model} model.width={d_model} model.encoder_layers={layers} model.decoder_layers={layers}"
        )

    @model_validator(mode="after")
    def _fits(self) -> "ConvolutionalConfig":
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel ({self.kernel}) must be odd, so that the encoder reads as far left as right")
        if not isinstance(self.head, LinearHeadConfig):
            raise ValueError(f"head {self.head.kind} is for model.kind transformer or recurrent; use linear")
        if self.positions.sees == "distances":
            raise ValueError(
                "positions that act inside self-attention do not go with model.kind convolutional, which has none; "
                "use learned, sinusoidal or none"
            )
        return self
