"""`model.kind: vision`: sizes and parts of the Vision Transformer."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from qkv.data.images.sources import Pixels, shown_size
from qkv.data.images.store import ImageStore
from qkv.functional.patches.images import patch_grid
from qkv.layers.attention import AnyAttention, FullConfig
from qkv.layers.feed_forward import AnyFeedForward, GeluConfig
from qkv.layers.residual import AnyResidual, PreNormConfig
from qkv.models.config import ModelConfig, models
from qkv.models.transformer.global_tokens import require_no_global_tokens
from qkv.models.vision.classifier import Pooling, VisionTransformer
from qkv.models.vision.model import VisionModel
from qkv.text import TokenizerPair

Side = Annotated[int, Field(ge=1, le=1 << 14)]


@models.register
class VisionConfig(ModelConfig):
    """The Vision Transformer (Dosovitskiy et al. 2021); the defaults of width and depth are those of ViT-Base."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "image_size": [8, 8],
        "channels": 1,
        "patch": 4,
        "classes": 3,
        "d_model": 16,
        "num_layers": 2,
        "num_heads": 2,
    }
    learns: ClassVar[Mapping[str, str]] = {"images": "class"}
    asked: ClassVar[str] = "classify"
    answered_by: ClassVar[str] = "qkv classify MODEL names the classes of images"

    kind: Literal["vision"] = "vision"
    image_size: tuple[Side, Side]
    """Height and width of the training images; others are read with interpolated positions."""
    channels: Literal[1, 3] = 3
    """1: grey images, 3: colour."""
    patch: int = Field(default=16, ge=1)
    """Height and width of a patch; must divide both sizes."""
    classes: int = Field(ge=2, le=1 << 20)
    """Number of classes."""
    pooling: Pooling = "class_token"
    """What the head reads: a class token that stands before the patches, or the mean of the patches."""
    d_model: int = Field(default=768, ge=1, le=1 << 20)
    """Width of the residual stream."""
    d_ff: int | None = Field(default=None, ge=1, le=1 << 24)
    """Inner width of the feed-forward network; null: 4 d_model."""
    num_layers: int = Field(default=12, ge=1, le=10_000)
    """Depth of the encoder."""
    num_heads: int = Field(default=12, ge=1, le=1 << 20)
    """Attention heads; must divide d_model."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """On each sublayer's output and on the embedded patches with their positions."""
    attention: AnyAttention = FullConfig()
    """Self-attention over the patches."""
    residual: AnyResidual = PreNormConfig()
    """Placement of the layer norm."""
    feed_forward: AnyFeedForward = GeluConfig()
    """The activation of the feed-forward network."""
    norm_eps: float = Field(default=1e-5, gt=0, le=1)
    """Added to the variance in every layer norm."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> "VisionConfig":
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads ({self.num_heads}) must divide d_model ({self.d_model})")
        require_no_global_tokens(self.attention)
        # Raises ValueError with a sentence if they do not fit.
        patch_grid(*self.image_size, self.patch)
        return self

    @property
    def own_layers(self) -> int:
        return self.num_layers

    def misfit(self, train: Any, dev: Any) -> str | None:
        if not isinstance(train, ImageStore):
            return None
        channels, height, width = train.image_shape
        sizes = {
            "image_size": ([*self.image_size], [height, width]),
            "channels": (self.channels, channels),
            "classes": (self.classes, len(train.classes)),
        }
        for key, (own, found) in sizes.items():
            if own != found:
                return f"model.{key} is {own}, but the images of data.train have {found}; set model.{key} to {found}"
        if isinstance(dev, ImageStore) and (problem := self.unreadable(dev.pixels[0])):
            return f"data.dev {problem}"
        return None

    def unreadable(self, image: Pixels) -> str | None:
        """Why a trained model cannot read an image; None: it can, if need be with interpolated positions."""
        channels, height, width = image.shape
        if channels == self.channels and height % self.patch == 0 and width % self.patch == 0:
            return None
        return (
            f"has images of {shown_size(image)}, but the model reads those of {self.channels} "
            f"channel{'s' if self.channels > 1 else ''} whose height and width are multiples of {self.patch}"
        )

    def build(self, tokenizers: TokenizerPair) -> VisionModel:
        return VisionModel(
            VisionTransformer(
                self.image_size,
                self.channels,
                self.patch,
                self.classes,
                self.d_model,
                self.num_layers,
                self.num_heads,
                self.d_ff,
                self.dropout,
                self.pooling,
                self.attention.model_dump(),
                self.residual.model_dump(),
                self.feed_forward.model_dump(),
                self.norm_eps,
            )
        )
