"""The sizes and parts of a recurrent model."""

from typing import Literal

from pydantic import Field, model_validator

from qkv.layers.attention.recording import name_attentions
from qkv.layers.recurrent import (
    STACKS,
    AdditiveAttentionConfig,
    AnyRecurrentAttention,
    AnyRecurrentEncoder,
    BidirectionalConfig,
    Cells,
    NoAttentionConfig,
)
from qkv.models.config import CrossAttentionSize, models
from qkv.models.recurrent.decoders import AttendsAfter, AttendsBefore, FeedsInput, FixedVector
from qkv.models.recurrent.model import RecurrentModel
from qkv.models.stepwise import StepwiseConfig
from qkv.text import TokenizerPair


@models.register
class RecurrentConfig(StepwiseConfig):
    """A recurrent encoder-decoder, with attention (Bahdanau et al. 2015) or without (Sutskever et al. 2014)."""

    kind: Literal["recurrent"] = "recurrent"
    d_model: int = Field(default=512, ge=2, le=1 << 20)
    """Width of embeddings and states; even if the encoder is bidirectional."""
    cell: Cells = "lstm"
    """The recurrent cells of encoder and decoder."""
    encoder: AnyRecurrentEncoder = BidirectionalConfig()
    """How the source is read."""
    encoder_layers: int = Field(default=1, ge=1, le=1000)
    """Layers of the encoder."""
    decoder_layers: int = Field(default=1, ge=1, le=1000)
    """Cells of the decoder, on top of each other."""
    first_state: Literal["mean", "last"] = "mean"
    """What the decoder's first state is computed from: the mean of the encoder's states, or the last one."""
    attention: AnyRecurrentAttention = AdditiveAttentionConfig()
    """What the decoder attends by: content; content and where it attended last, or coverage; or none."""
    attend: Literal["before", "after"] = "before"
    """Attend before a step, from the last state (Bahdanau et al. 2015), or after it, from the new one (Luong et al.
    2015). After is faster in training: without input feeding, the cells take the whole target in one call."""
    input_feeding: bool = False
    """With `attend: after`: the cells also read the output vector of the step before (Luong et al. 2015)."""

    @property
    def attends(self) -> bool:
        """Whether the decoder has attention."""
        return not isinstance(self.attention, NoAttentionConfig)

    @property
    def own_layers(self) -> int:
        return self.encoder_layers + self.decoder_layers

    @property
    def cross_attention_size(self) -> CrossAttentionSize | None:
        return CrossAttentionSize(layers=1, heads=1) if self.attends else None

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
        if problem := self.encoder.problem(self.cell, self.d_model):
            raise ValueError(problem)
        if problem := self.head.problem(int(self.attends), 1):
            raise ValueError(f"head: {problem}; a recurrent model has one layer of attention at most, with one head")
        if not self.attends and (self.attend == "after" or self.input_feeding):
            raise ValueError("attend and input_feeding say where attention stands, but attention is none; drop them")
        if self.input_feeding and self.attend == "before":
            raise ValueError("input_feeding goes with attend: after; before a step, the cells read the context already")
        return self


def build_recurrent(config: RecurrentConfig, src_vocab: int, tgt_vocab: int, pad: int, sharing: str) -> RecurrentModel:
    """A randomly initialised model; seed torch first for reproducible weights."""
    d_model, dropout, kind = config.d_model, config.dropout, _model_class(config)
    src_tokens = config.embedding(src_vocab, pad)
    tgt_tokens = src_tokens if sharing == "all" else config.embedding(tgt_vocab, pad)
    out_tokens = config.embedding(tgt_vocab, pad) if sharing == "none" else tgt_tokens
    encoder = config.encoder.build(config.cell, d_model, config.encoder_layers, dropout)
    decoder = STACKS[config.cell](kind.read_by_cells * d_model, d_model, config.decoder_layers, dropout)
    head, attention = config.head.build(out_tokens.weight), config.attention.build(d_model)
    return kind(src_tokens, tgt_tokens, encoder, decoder, head, dropout, attention, config.first_state == "last")


def _model_class(config: RecurrentConfig) -> type[RecurrentModel]:
    if not config.attends:
        return FixedVector
    if config.attend == "before":
        return AttendsBefore
    return FeedsInput if config.input_feeding else AttendsAfter
