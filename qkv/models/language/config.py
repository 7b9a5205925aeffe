"""What the configs of models with one stack have in common."""

import math
from collections.abc import Iterable

from pydantic import Field, model_validator
from torch import nn

from qkv.layers.attention import AnyAttention, Attention, FullConfig
from qkv.layers.feed_forward import AnyFeedForward, GeluConfig
from qkv.layers.positions import AnyPositions, Positions
from qkv.layers.positions.learned import LearnedConfig
from qkv.layers.residual import AnyResidual, PreNormConfig
from qkv.models.base import MaxLengths
from qkv.models.config import ModelConfig
from qkv.models.transformer.build import build_encoder, build_wiring
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.encoder import Encoder

STD = 0.02
"""Of the initial weights, as published for GPT and BERT."""


class OneStackConfig(ModelConfig):
    """Base class of models with one stack of self-attention."""

    d_model: int = Field(default=256, ge=1, le=1 << 20)
    """Width of the residual stream."""
    d_ff: int = Field(default=1024, ge=1, le=1 << 24)
    """Inner width of the feed-forward network."""
    num_heads: int = Field(default=4, ge=1, le=1 << 20)
    """Attention heads; must divide d_model."""
    num_layers: int = Field(default=4, ge=1, le=10_000)
    """Depth."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On each sublayer's output and on the embeddings."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """On the attention weights."""
    residual: AnyResidual = PreNormConfig()
    """Placement of the layer norm."""
    positions: AnyPositions = LearnedConfig()
    """The position scheme."""
    attention: AnyAttention = FullConfig()
    """The self-attention."""
    feed_forward: AnyFeedForward = GeluConfig()
    """The activation of the feed-forward network."""

    @property
    def own_layers(self) -> int:
        return self.num_layers

    @property
    def limits(self) -> MaxLengths:
        return MaxLengths(self.positions.limit, self.positions.limit)

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        limit, longest = self.positions.limit, max(longest_src, longest_tgt)
        if limit is None or longest <= limit:
            return None
        return f"model.positions.max_length ({limit}) is below {longest}, the most tokens of a text; raise it"

    def overrides_for(self, d_model: int, d_ff: int, num_heads: int, layers: int) -> str | None:
        if self.d_model <= d_model and self.num_layers <= layers:
            return None
        return f"model.d_model={d_model} model.d_ff={d_ff} model.num_heads={num_heads} model.num_layers={layers}"

    def as_transformer(self) -> TransformerConfig:
        """A Transformer whose encoder is this stack; it checks that the parts fit each other."""
        return TransformerConfig(
            d_model=self.d_model,
            d_ff=self.d_ff,
            num_heads=self.num_heads,
            encoder_layers=self.num_layers,
            decoder_layers=1,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            residual=self.residual,
            positions=self.positions,
            encoder_attention=self.attention,
            feed_forward=self.feed_forward,
        )

    def build_stack(self, causal: bool) -> tuple[Positions, Encoder]:
        """Positions and layers with fresh weights; `causal`: no key follows its query."""
        config = self.as_transformer()
        positions = config.positions.build(self.d_model, self.num_heads, causal)
        return positions, build_encoder(config, positions, build_wiring(config))

    @model_validator(mode="after")
    def _parts_fit(self) -> "OneStackConfig":
        self.as_transformer()
        return self


def initialise(parts: Iterable[nn.Module], depth: int) -> None:
    """Weights from N(0, 0.02²), biases zero; what writes to the residual stream is divided by √(2 depth)."""
    modules = [module for part in parts for module in part.modules()]
    for module in modules:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=STD)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in modules:
        last = getattr(module, "output" if isinstance(module, Attention) else "outer", None)
        if isinstance(last, nn.Linear):
            nn.init.normal_(last.weight, std=STD / math.sqrt(2 * depth))
