"""Attention over an image: where the class token looks, in every head of every layer."""

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.layers.attention.recording import capture_attention
from qkv.models.vision.classifier import VisionTransformer


@torch.no_grad()
def attention_to_patches(model: VisionTransformer, image: Float[Tensor, "channels height width"]) -> list[Tensor]:
    """For each layer [H, rows, columns]: the weight of each patch for the class token, or the mean over all patches."""
    with capture_attention(model) as record:
        model(image[None])
    before = int(model.pooling == "class_token")
    size = model.embedding.size
    rows, columns = image.shape[1] // size, image.shape[2] // size
    found = []
    for name in record:
        weights = record[name][0]
        queries = weights[:, 0] if before else weights.mean(dim=1)
        found.append(queries[:, before:].view(-1, rows, columns))
    return found
