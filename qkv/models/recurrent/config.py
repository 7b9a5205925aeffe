"""The sizes of a recurrent model."""

from typing import Literal

from pydantic import Field, model_validator

from qkv.layers.attention.recording import name_attentions
from qkv.layers.recurrent import AdditiveAttentionConfig, AnyRecurrentAttention, BidirectionalLSTM, LSTMStack
from qkv.models.config import CrossAttentionSize, models
from qkv.models.recurrent.model import RecurrentModel
from qkv.models.stepwise import StepwiseConfig
from qkv.text import TokenizerPair


@models.register
class RecurrentConfig(StepwiseConfig):
    """An LSTM encoder-decoder with additive attention (Bahdanau et al. 2015), to compare the Transformer with."""

    kind: Literal["recurrent"] = "recurrent"
    d_model: int = Field(default=512, ge=2, le=1 << 20)
    """Width of embeddings and states; even, since each direction of the encoder is half as wide."""
    encoder_layers: int = Field(default=1, ge=1, le=1000)
    """Bidirectional LSTM layers of the encoder."""
    decoder_layers: int = Field(default=1, ge=1, le=1000)
    """LSTM layers of the decoder."""
    attention: AnyRecurrentAttention = AdditiveAttentionConfig()
    """What the decoder attends by: content, content and where it attended last, or content and coverage."""

    @property
    def own_layers(self) -> int:
        return self.encoder_layers + self.decoder_layers

    @property
    def cross_attention_size(self) -> CrossAttentionSize:
        return CrossAttentionSize(layers=1, heads=1)

    def build(self, tokenizers: TokenizerPair) -> RecurrentModel:
        sharing = self.share_embeddings or ("all" if tokenizers.shared else "target")
        model = build_recurrent(self, len(tokenizers.src), len(tokenizers.tgt), tokenizers.src.special.pad, sharing)
        name_attentions(model)
        return model

    def state_size(self, src_length: int, tgt_length: int) -> int:
        # The states of the cells, and memory and keys of the source.
        return 2 * self.d_model * (self.decoder_layers + src_length)

    def overrides_for(self, d_model: int, d_ff: int, num_heads: int, layers: int) -> str | None:
        if self.d_model <= d_model and self.own_layers <= 2 * layers:
            return None
        return f"model.d_model={d_model} model.encoder_layers=1 model.decoder_layers=1"

    @model_validator(mode="after")
    def _fits(self) -> "RecurrentConfig":
        if self.d_model % 2:
            raise ValueError(f"d_model ({self.d_model}) must be even: each direction of the encoder has half of it")
        if problem := self.head.problem(1, 1):
            raise ValueError(f"head: {problem}; a recurrent model has one layer of attention, with one head")
        return self


def build_recurrent(config: RecurrentConfig, src_vocab: int, tgt_vocab: int, pad: int, sharing: str) -> RecurrentModel:
    """A randomly initialised model; seed torch first for reproducible weights."""
    d_model = config.d_model
    src_tokens = config.embedding(src_vocab, pad)
    tgt_tokens = src_tokens if sharing == "all" else config.embedding(tgt_vocab, pad)
    out_tokens = config.embedding(tgt_vocab, pad) if sharing == "none" else tgt_tokens
    encoder = BidirectionalLSTM(d_model, config.encoder_layers, config.dropout)
    decoder = LSTMStack(2 * d_model, d_model, config.decoder_layers, config.dropout)
    return RecurrentModel(
        src_tokens,
        tgt_tokens,
        encoder,
        decoder,
        config.head.build(out_tokens.weight),
        config.dropout,
        config.attention.build(d_model),
    )
