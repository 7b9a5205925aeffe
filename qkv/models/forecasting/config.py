"""`model.kind: forecasting`: sizes and parts of the patched forecaster."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from qkv.functional.patches.series import num_series_patches
from qkv.layers.attention import AnyAttention, FullConfig
from qkv.layers.feed_forward import AnyFeedForward, GeluConfig
from qkv.layers.residual import AnyResidual, PreNormConfig
from qkv.models.base import MaxLengths
from qkv.models.config import ModelConfig, models
from qkv.models.forecasting.forecaster import PatchForecaster
from qkv.models.forecasting.model import ForecastingModel
from qkv.models.transformer.global_tokens import require_no_global_tokens
from qkv.text import TokenizerPair


@models.register
class ForecastingConfig(ModelConfig):
    """The patched time-series Transformer (PatchTST, Nie et al. 2023) with reversible instance normalisation."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "context": 24,
        "horizon": 6,
        "patch": 8,
        "stride": 4,
        "d_model": 16,
        "num_layers": 2,
        "num_heads": 2,
    }
    learns: ClassVar[Mapping[str, str]] = {"series": "future"}
    asked: ClassVar[str] = "forecast"
    answered_by: ClassVar[str] = "qkv forecast MODEL continues series"
    told_to_data: ClassVar[tuple[str, ...]] = ("context", "horizon")

    kind: Literal["forecasting"] = "forecasting"
    context: int = Field(ge=2, le=1 << 20)
    """Values of the window that is read."""
    horizon: int = Field(ge=1, le=1 << 20)
    """Values that are forecast."""
    patch: int = Field(default=16, ge=1)
    """Values of a patch; at most `context`."""
    stride: int = Field(default=8, ge=1)
    """Values from one patch to the next; at most `patch`."""
    d_model: int = Field(default=128, ge=1, le=1 << 20)
    """Width of the residual stream."""
    d_ff: int | None = Field(default=None, ge=1, le=1 << 24)
    """Inner width of the feed-forward network; null: 4 d_model."""
    num_layers: int = Field(default=3, ge=1, le=10_000)
    """Depth of the encoder."""
    num_heads: int = Field(default=4, ge=1, le=1 << 20)
    """Attention heads; must divide d_model."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On each sublayer's output and on what the head reads."""
    attention: AnyAttention = FullConfig()
    """Self-attention over the patches."""
    residual: AnyResidual = PreNormConfig()
    """Placement of the layer norm."""
    feed_forward: AnyFeedForward = GeluConfig()
    """The activation of the feed-forward network."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> "ForecastingConfig":
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads ({self.num_heads}) must divide d_model ({self.d_model})")
        require_no_global_tokens(self.attention)
        # Raises ValueError with a sentence if there are no such patches.
        num_series_patches(self.context, self.patch, self.stride)
        return self

    @property
    def own_layers(self) -> int:
        return self.num_layers

    @property
    def limits(self) -> MaxLengths:
        return MaxLengths(self.context, self.horizon)

    def build(self, tokenizers: TokenizerPair) -> ForecastingModel:
        return ForecastingModel(
            PatchForecaster(
                self.context,
                self.horizon,
                self.patch,
                self.stride,
                self.d_model,
                self.num_layers,
                self.num_heads,
                self.d_ff,
                self.dropout,
                self.attention.model_dump(),
                self.residual.model_dump(),
                self.feed_forward.model_dump(),
            )
        )

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        for key, own, given in (("context", self.context, longest_src), ("horizon", self.horizon, longest_tgt)):
            if own != given:
                return f"model.{key} ({own}) and data.{key} ({given}) must be equal; leave out data.{key}"
        return None
