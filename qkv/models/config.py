"""The sizes and parts of a model, and the named presets."""

from typing import Any, Literal

from pydantic import Field, model_validator

from qkv.config.base import Config
from qkv.layers.feed_forward import AnyFeedForward, ReluConfig
from qkv.layers.positions import AnyPositions
from qkv.layers.positions.sinusoidal import SinusoidalConfig
from qkv.layers.residual import AnyResidual, PostNormConfig

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "d_ff": 256, "num_heads": 4, "encoder_layers": 4, "decoder_layers": 4, "dropout": 0.3},
    "small": {"d_model": 256, "d_ff": 1024, "num_heads": 4, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.2},
    "base": {"d_model": 512, "d_ff": 2048, "num_heads": 8, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.1},
    "big": {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.3},
}


class ModelConfig(Config):
    """The encoder-decoder Transformer; the defaults are the paper's base model."""

    preset: Literal["tiny", "small", "base", "big"] | None = None
    """Sizes and dropout to start from; any key given beside it wins. base and big are the paper's."""
    d_model: int = Field(default=512, ge=1)
    """Width of the residual stream."""
    d_ff: int = Field(default=2048, ge=1)
    """Inner width of the feed-forward network."""
    num_heads: int = Field(default=8, ge=1)
    """Attention heads; must divide d_model."""
    encoder_layers: int = Field(default=6, ge=1)
    """Depth of the encoder."""
    decoder_layers: int = Field(default=6, ge=1)
    """Depth of the decoder."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On each sublayer's output and on the embeddings with their positions, as in the paper."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the attention weights."""
    feed_forward_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the inner vectors of the feed-forward network."""
    residual: AnyResidual = PostNormConfig()
    """Where the layer norm stands."""
    positions: AnyPositions = SinusoidalConfig()
    """How the model knows where a token stands."""
    feed_forward: AnyFeedForward = ReluConfig()
    """The activation of the feed-forward network."""
    share_embeddings: Literal["all", "target", "none"] | None = None
    """One matrix for source, target and output (all), for target and output (target), or three (none).

    Default: all with a shared tokenizer, else target."""
    share_layers: bool = False
    """The same layer at every depth of a stack."""

    @model_validator(mode="before")
    @classmethod
    def _start_from_preset(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("preset") in PRESETS:
            return {**PRESETS[data["preset"]], **data}
        return data

    @model_validator(mode="after")
    def _heads_divide(self) -> "ModelConfig":
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads ({self.num_heads}) must divide d_model ({self.d_model})")
        return self
