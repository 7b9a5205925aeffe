"""The sizes and parts of a model, and the named presets."""

from typing import Any, Literal

from pydantic import Field, model_validator

from qkv.core.errors import UsageError
from qkv.layers.attention import AnyAttention, AttentionConfig, FullConfig
from qkv.layers.attention.gates import HeadGatesConfig
from qkv.layers.feed_forward import AnyFeedForward, ReluConfig
from qkv.layers.position_offsets import AnyOffsets, NoOffsetsConfig
from qkv.layers.positions import AnyPositions, positions
from qkv.layers.positions.sinusoidal import SinusoidalConfig
from qkv.layers.residual import AnyResidual, PostNormConfig, residuals
from qkv.models.base import MaxLengths
from qkv.models.config import CrossAttentionSize, ModelConfig, Seq2SeqConfig, models
from qkv.models.heads.linear import LinearHeadConfig
from qkv.models.transformer.global_tokens import find_global_tokens
from qkv.models.transformer.model import Transformer
from qkv.models.transformer.pruned_heads import PrunedHeads
from qkv.models.transformer.stacks import AnyStack
from qkv.models.transformer.stacks.layers import LayersConfig
from qkv.models.transformer.wirings import AnyWiring
from qkv.models.transformer.wirings.last import LastConfig
from qkv.text import TokenizerPair

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "d_ff": 256, "num_heads": 4, "encoder_layers": 4, "decoder_layers": 4, "dropout": 0.3},
    "small": {"d_model": 256, "d_ff": 1024, "num_heads": 4, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.2},
    "base": {"d_model": 512, "d_ff": 2048, "num_heads": 8, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.1},
    "big": {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.3},
}


@models.register
class TransformerConfig(Seq2SeqConfig):
    """The encoder-decoder Transformer; the defaults are the paper's base model."""

    kind: Literal["transformer"] = "transformer"
    preset: Literal["tiny", "small", "base", "big"] | None = None
    """Sizes and dropout to start from; other keys override it. base and big are the paper's."""
    d_model: int = Field(default=512, ge=1, le=1 << 20)
    """Width of the residual stream."""
    d_ff: int = Field(default=2048, ge=1, le=1 << 24)
    """Inner width of the feed-forward network."""
    num_heads: int = Field(default=8, ge=1, le=1 << 20)
    """Attention heads; must divide d_model."""
    encoder_layers: int = Field(default=6, ge=1, le=10_000)
    """Depth of the encoder."""
    decoder_layers: int = Field(default=6, ge=1, le=10_000)
    """Depth of the decoder."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On each sublayer's output and on the embeddings with their positions, as in the paper."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the attention weights."""
    feed_forward_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the hidden activations of the feed-forward network."""
    residual: AnyResidual = PostNormConfig()
    """Placement of the layer norm."""
    positions: AnyPositions = SinusoidalConfig()
    """The position scheme."""
    position_offsets: AnyOffsets = NoOffsetsConfig()
    """Random position ids in training."""
    encoder_attention: AnyAttention = FullConfig()
    """Self-attention of the encoder."""
    decoder_attention: AnyAttention = FullConfig()
    """Self-attention of the decoder."""
    cross_attention: AnyAttention = FullConfig()
    """Cross-attention of the decoder."""
    pruned_heads: PrunedHeads = PrunedHeads()
    """Heads that `qkv prune` has removed; the others keep the width d_model / num_heads."""
    head_gates: HeadGatesConfig | None = None
    """Gates that close heads in training (Voita et al. 2019), best from a trained model (`start_from`); `qkv prune`
    then removes the closed ones."""
    feed_forward: AnyFeedForward = ReluConfig()
    """The activation of the feed-forward network."""
    feed_forward_chunk: int | None = Field(default=None, ge=1)
    """Positions per chunk of the feed-forward network: less memory for long input, the same result.

    Default: all. In training each chunk is computed twice."""
    share_embeddings: Literal["all", "target", "none"] | None = None
    """One matrix for source, target and output (all), for target and output (target), or three (none).

    Default: all with a shared tokenizer, else target."""
    share_layers: bool = False
    """The same layer at every depth of a stack."""
    stack: AnyStack = LayersConfig()
    """The layer schedule: how often and in which order the layers of encoder and decoder are applied."""
    wiring: AnyWiring = LastConfig()
    """Which encoder states the decoder layers attend to."""
    streaming: bool = False
    """Whether the model must be able to write while the source arrives: parts that need all of it are then refused."""

    def distinct(self, num_layers: int) -> int:
        """Number of distinct layers in a stack of `num_layers`: shared layers count once."""
        return 1 if self.share_layers or self.stack.shared else num_layers

    @property
    def own_layers(self) -> int:
        """Number of distinct layers in encoder and decoder."""
        return self.distinct(self.encoder_layers) + self.distinct(self.decoder_layers)

    @property
    def cross_attention_size(self) -> CrossAttentionSize | None:
        if not self.stack.exposes:
            return None
        layers = self.distinct(self.decoder_layers)
        heads = min(len(self.pruned_heads.kept("cross", depth, self.num_heads)) for depth in range(layers))
        return CrossAttentionSize(layers, heads)

    @property
    def needs_whole_source(self) -> str | None:
        """Which part needs all of the source before the first output, and what would not; None: the model streams."""
        cross, encoder = self.cross_attention, self.encoder_attention
        if not cross.streams:
            return f"cross_attention {cross.kind} attends to the whole source; use monotonic, mocha or wait_k"
        if encoder.lookahead is None:
            return (
                f"encoder_attention {encoder.kind} looks ahead, so it needs the whole source; use encoder_attention "
                "causal, or truncated with a small right"
            )
        if not isinstance(self.head, LinearHeadConfig):
            return f"head {self.head.kind} reads the whole source; use head linear"
        return None

    @property
    def limits(self) -> MaxLengths:
        return MaxLengths(self.positions.limit, self.positions.limit)

    def build(self, tokenizers: TokenizerPair) -> Transformer:
        from qkv.models.transformer.build import build_model  # which needs this file

        sharing = self.share_embeddings or ("all" if tokenizers.shared else "target")
        config = self.model_copy(update={"share_embeddings": sharing})
        model = build_model(config, len(tokenizers.src), len(tokenizers.tgt), tokenizers.src.special.pad)
        find_global_tokens(model.encoder, tokenizers, "model.encoder_attention")
        return model

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        longest, limit = max(longest_src, longest_tgt), self.positions.limit
        if problem := self.positions.length_problem(longest):
            return problem
        if problem := self.position_offsets.problem(longest, limit):
            return problem
        canvas = self.decoder.longest_canvas(longest_src, longest_tgt)
        if limit is not None and limit < canvas:
            return (
                f"model.positions.max_length ({limit}) is below the {canvas} positions that the decoder may need; "
                "raise it, or lower data.max_src_tokens"
            )
        if self.share_embeddings == "all" and not shared_tokenizer:
            return "model.share_embeddings all needs one tokenizer for both sides: give text.shared"
        return super().data_problem(longest_src, longest_tgt, shared_tokenizer)

    def state_size(self, src_length: int, tgt_length: int) -> int:
        # Keys and values of its tokens and of the source in each layer.
        return 2 * self.decoder_layers * self.d_model * (src_length + tgt_length)

    def overrides_for(self, d_model: int, d_ff: int, num_heads: int, layers: int) -> str | None:
        if self.d_model <= d_model and self.encoder_layers + self.decoder_layers <= 2 * layers:
            return None
        return (
            f"model.d_model={d_model} model.d_ff={d_ff} model.num_heads={num_heads} "
            f"model.encoder_layers={layers} model.decoder_layers={layers}"
        )

    @model_validator(mode="before")
    @classmethod
    def _start_from_preset(cls, data: Any) -> Any:
        preset = data.get("preset") if isinstance(data, dict) else None
        if isinstance(preset, str) and preset in PRESETS:
            return {**PRESETS[preset], **data}
        return data

    @model_validator(mode="after")
    def _heads_divide(self) -> "TransformerConfig":
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads ({self.num_heads}) must divide d_model ({self.d_model})")
        return self

    @model_validator(mode="after")
    def _pruned_heads_fit(self) -> "TransformerConfig":
        for side, (attention, layers) in self.sides.items():
            if not any(getattr(self.pruned_heads, side)):
                continue
            if not attention.prunable:
                raise ValueError(f"pruned_heads: {self.unprunable(side)}")
            if problem := self.pruned_heads.problem(side, self.num_heads, self.distinct(layers)):
                raise ValueError(f"pruned_heads: {problem}")
        return self

    @model_validator(mode="after")
    def _gates_fit(self) -> "TransformerConfig":
        if self.head_gates is not None and not self.decoder.autoregressive:
            raise ValueError(
                f"head_gates are for the autoregressive decoder, not for {self.decoder.kind}; leave them out"
            )
        return self

    @model_validator(mode="after")
    def _head_fits(self) -> "TransformerConfig":
        if isinstance(self.head, LinearHeadConfig):
            return self
        if not self.decoder.autoregressive:
            raise ValueError(
                f"head {self.head.kind} is for the autoregressive decoder, not for {self.decoder.kind}; "
                "use head linear, or leave out decoder"
            )
        if self.draft is not None:
            raise ValueError(f"draft reads the head linear, not {self.head.kind}; drop one of the two")
        if not self.stack.exposes:
            raise ValueError(f"head {self.head.kind} does not go with stack {self.stack.kind}; use layers or universal")
        if self.head.reads_memory and not self.wiring.last_only:
            raise ValueError(
                f"head {self.head.kind} reads the last encoder layer, not wiring {self.wiring.kind}; use wiring last, "
                "or head pointer_generator with attention cross"
            )
        size = self.cross_attention_size
        if problem := self.head.problem(self.decoder_layers, self.num_heads if size is None else size.heads):
            raise ValueError(f"head: {problem}")
        return self

    @model_validator(mode="after")
    def _draft_fits(self) -> "TransformerConfig":
        if self.draft is not None and not self.decoder.autoregressive:
            raise ValueError(f"draft speeds up an autoregressive model, not one of kind {self.decoder.kind}; drop it")
        if self.draft is not None and self.draft.kind == "source" and not self.wiring.last_only:
            raise ValueError(f"draft source reads the last encoder layer, not wiring {self.wiring.kind}; use blockwise")
        return self

    @model_validator(mode="after")
    def _decoder_fits(self) -> "TransformerConfig":
        if self.decoder.predicts_length and not self.wiring.last_only:
            raise ValueError(
                f"decoder {self.decoder.kind} reads the length off the last encoder layer, not wiring "
                f"{self.wiring.kind}; use wiring last, or decoder ctc"
            )
        return self

    @model_validator(mode="after")
    def _wiring_fits(self) -> "TransformerConfig":
        if not (self.wiring.last_only or self.stack.exposes):
            raise ValueError(
                f"wiring {self.wiring.kind} needs one state after each layer, and stack {self.stack.kind} has none; "
                "use wiring last, or stack layers or universal"
            )
        return self

    @model_validator(mode="after")
    def _positions_fit(self) -> "TransformerConfig":
        if problem := self.positions.problem(self.d_model, self.num_heads):
            raise ValueError(f"positions: {problem}")
        if isinstance(self.position_offsets, NoOffsetsConfig):
            return self
        if self.positions.sees == "nothing":
            raise ValueError("position_offsets changes nothing with positions none; leave it out")
        if self.positions.sees == "distances" and self.position_offsets.keeps_distances:
            raise ValueError(
                "position_offsets shift changes nothing with positions that see only distances; "
                "use randomised, or positions sinusoidal or learned"
            )
        return self

    @model_validator(mode="after")
    def _logits_fit(self) -> "TransformerConfig":
        for attention in (self.encoder_attention, self.decoder_attention):
            if self.positions.on_logits and not attention.takes_bias:
                fit = [kind for kind in positions.names() if not positions[kind].on_logits]
                raise ValueError(
                    f"attention {attention.kind} takes no positions that add to its logits; use {' or '.join(fit)}"
                )
        return self

    @model_validator(mode="after")
    def _stack_fits(self) -> "TransformerConfig":
        if self.stack.adds_only and not self.residual.adds:
            fit = [kind for kind in residuals.names() if residuals[kind].adds]
            raise ValueError(
                f"stack {self.stack.kind} needs a residual form that only adds to its stream; use {' or '.join(fit)}"
            )
        return self

    @model_validator(mode="after")
    def _cross_attention_fits(self) -> "TransformerConfig":
        kind, cross = self.cross_attention.kind, self.cross_attention
        if not cross.follows_output:
            return self
        if not self.decoder.autoregressive:
            raise ValueError(
                f"cross_attention {kind} follows an output that is written left to right, and decoder "
                f"{self.decoder.kind} writes it at once; use cross_attention full, or leave out decoder"
            )
        if not self.wiring.in_order:
            raise ValueError(
                f"cross_attention {kind} moves along the source, and wiring {self.wiring.kind} gives it several "
                "keys a token; use wiring last"
            )
        if not self.stack.exposes:
            raise ValueError(f"cross_attention {kind} does not go with stack {self.stack.kind}; use layers")
        if cross.hides_source and self.encoder_attention.lookahead != 0:
            raise ValueError(
                f"cross_attention {kind} hides what has not been read yet, and encoder_attention "
                f"{self.encoder_attention.kind} has looked ahead already; use encoder_attention causal, or truncated "
                "with right: 0"
            )
        return self

    @model_validator(mode="after")
    def _streams(self) -> "TransformerConfig":
        if self.streaming and (problem := self.needs_whole_source):
            raise ValueError(f"streaming: {problem}")
        return self

    @model_validator(mode="after")
    def _attentions_fit(self) -> "TransformerConfig":
        for name, inner in (("encoder", self.encoder_attention), ("decoder", self.decoder_attention)):
            if not inner.self_attention:
                raise ValueError(f"{name}_attention cannot be {inner.kind}: {inner.hint}")
        if not self.decoder_attention.causal:
            kind, hint = self.decoder_attention.kind, self.decoder_attention.causal_hint or self.decoder_attention.hint
            raise ValueError(f"decoder_attention cannot be {kind}: {hint}")
        if not self.cross_attention.cross:
            kind, hint = self.cross_attention.kind, self.cross_attention.hint
            raise ValueError(f"cross_attention cannot be {kind}: {hint}")
        for side, (attention, layers) in self.sides.items():
            if problem := attention.problem(self.num_heads, self.distinct(layers)):
                raise ValueError(f"{side}_attention: {problem}")
        return self

    @property
    def sides(self) -> dict[str, tuple[AttentionConfig, int]]:
        """The kind of attention and the number of layers of each side."""
        return {
            "encoder": (self.encoder_attention, self.encoder_layers),
            "decoder": (self.decoder_attention, self.decoder_layers),
            "cross": (self.cross_attention, self.decoder_layers),
        }

    def unprunable(self, side: str) -> str:
        """Why single heads of a side cannot be removed."""
        return (
            f"heads of {side}_attention {self.sides[side][0].kind} cannot be removed one by one: they share keys and "
            "values, or have parameters besides their projections"
        )


def require_transformer_config(config: ModelConfig, what: str) -> TransformerConfig:
    """`config`, if it is of a Transformer; else raises UsageError: `what` is for the Transformer alone."""
    if not isinstance(config, TransformerConfig):
        raise UsageError(f"{what} is for a Transformer, not for a model of the kind {config.kind}")
    return config
