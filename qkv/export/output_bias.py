"""A bias on the logits that excludes special tokens from every softmax, whatever engine runs the model."""

import torch
from torch import Tensor

from qkv.text.special import NEVER_OUTPUT

NEVER = -30_000.0
"""The probability is 0, and a half-precision number can still hold it."""


def output_bias(tokens: int, size: int) -> Tensor:
    """[size], 0 for what may be output of the first `tokens` ids; what follows only fills the matrix up."""
    bias = torch.full((size,), NEVER)
    bias[:tokens] = 0.0
    bias[list(NEVER_OUTPUT)] = NEVER
    return bias
