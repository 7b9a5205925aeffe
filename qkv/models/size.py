"""How large a model will be, before it is built."""

import torch

from qkv.models.config import ModelConfig
from qkv.text import TokenizerPair


def count_parameters(config: ModelConfig, tokenizers: TokenizerPair) -> int:
    """The weights of a model; none of them is allocated."""
    with torch.device("meta"):
        model = config.build(tokenizers)
    return sum(weight.numel() for weight in model.parameters())
