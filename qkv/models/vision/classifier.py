"""The Vision Transformer as a plain module: images [B, C, h, w] to logits of classes."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from qkv.functional.patches.images import Images
from qkv.layers.attention.recording import name_attentions
from qkv.layers.patches import PatchEmbedding
from qkv.models.transformer.standalone import Encoder, Kind

Pooling = Literal["class_token", "mean"]


class VisionTransformer(nn.Module):
    """Patches, positions, a pre-norm encoder, and a linear head on the class token or on the mean of the patches.

    Args:
        image_size: height and width of the images; others are read with interpolated positions.
        channels: 1 for grey, 3 for colour.
        patch: height and width of a patch; must divide both.
        classes: number of classes.
        d_model: width of the residual stream.
        num_layers: depth of the encoder.
        num_heads: attention heads; must divide `d_model`.
        d_ff: inner width of the feed-forward networks; by default 4 `d_model`.
        dropout: dropout probability of the sublayers' outputs and of the embeddings.
        pooling: what the head reads: `class_token`, or the `mean` of the patches (then there is no class token).
        attention: kind of the self-attention (`qkv.attentions`).
        residual: placement of the layer norm.
        feed_forward: `gelu`, `relu` or `swiglu`.
        norm_eps: added to the variance in every layer norm.

    Examples:
        >>> import torch
        >>> from qkv import VisionTransformer
        >>> model = VisionTransformer(image_size=(8, 8), channels=1, patch=2, classes=10, d_model=64, num_heads=4)
        >>> model(torch.randn(3, 1, 8, 8)).shape
        torch.Size([3, 10])
    """

    def __init__(
        self,
        image_size: tuple[int, int],
        channels: int,
        patch: int,
        classes: int,
        d_model: int = 768,
        num_layers: int = 12,
        num_heads: int = 12,
        d_ff: int | None = None,
        dropout: float = 0.0,
        pooling: Pooling = "class_token",
        attention: Kind = "full",
        residual: Kind = "pre",
        feed_forward: Kind = "gelu",
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.embedding = PatchEmbedding(image_size, channels, patch, d_model, pooling == "class_token", dropout)
        self.encoder = Encoder(d_model, num_layers, num_heads, d_ff, dropout, attention, "none", residual, feed_forward)
        self.head = nn.Linear(d_model, classes)
        # As published: all classes are equally likely at the start.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = norm_eps
        name_attentions(self)

    def forward(self, images: Images) -> Float[Tensor, "B classes"]:
        states = self.states(images)
        return self.head(states[:, 0] if self.pooling == "class_token" else states.mean(dim=1))

    def states(self, images: Images) -> Float[Tensor, "B S D"]:
        """The encoder's output for the class token, if there is one, and for the patches row by row."""
        return self.encoder(self.embedding(images))
