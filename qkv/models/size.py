"""How large a model will be, before it is built."""

import torch

from qkv.models.saved.folder import new_model
from qkv.models.transformer.config import TransformerConfig
from qkv.text import TokenizerPair


def count_parameters(config: TransformerConfig, tokenizers: TokenizerPair) -> int:
    """The weights of a model; none of them is allocated."""
    with torch.device("meta"):
        model = new_model(config, tokenizers)
    return sum(weight.numel() for weight in model.parameters())
