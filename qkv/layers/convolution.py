"""Convolutions over sequences [B, T, D], without padding: the caller pads."""

import math
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

from qkv.layers.frozen import frozen_copy

Module = TypeVar("Module", bound=nn.Module)


class SequenceConvolution(nn.Module):
    """y_t = W [x_t; x_t+d; ...; x_t+(k-1)d] + b, for inputs [B, T + (k-1)d, D] to outputs [B, T, D']."""

    def __init__(self, width: int, out_width: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, out_width, kernel, dilation=dilation)
        self.span = (kernel - 1) * dilation
        """How many inputs more than outputs there are."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x.transpose(1, 2))
        return y.transpose(1, 2)


class GatedConvolution(nn.Module):
    """a * sigmoid(b) with [a; b] = convolution(x) (Dauphin et al. 2017); its weights are weight-normalised.

    Initialised from N(0, 4 (1 - dropout) / (kernel D)), so that outputs vary about as much as inputs.
    """

    def __init__(self, width: int, kernel: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.convolution = SequenceConvolution(width, 2 * width, kernel)
        self.span = self.convolution.span
        conv = self.convolution.conv
        nn.init.normal_(conv.weight, std=math.sqrt(4 * (1 - dropout) / (kernel * width)))
        nn.init.zeros_(conv.get_parameter("bias"))
        weight_norm(conv, dim=0)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T + kernel - 1, D] to [B, T, D]."""
        return F.glu(self.convolution(x), dim=-1)


def normalised_linear(width: int, out_width: int, dropout: float = 0.0) -> nn.Linear:
    """A weight-normalised linear map, initialised from N(0, (1 - dropout) / D)."""
    linear = nn.Linear(width, out_width)
    nn.init.normal_(linear.weight, std=math.sqrt((1 - dropout) / width))
    nn.init.zeros_(linear.bias)
    return weight_norm(linear, dim=0)


def append(past: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """What a causal convolution reads, [R, span + W, D], and the last `span` inputs, which the next call needs.

    `past` [R, span, D] are the inputs before `x` [R, W, D]; zeros at the start of a sequence.
    """
    window = torch.cat([past, x], dim=1)
    return window, window.narrow(1, x.shape[1], past.shape[1])


def without_weight_norm(model: Module) -> Module:
    """A copy for inference with plain weights: a step does not normalise them again."""
    copied = frozen_copy(model)
    for parent in list(copied.modules()):
        for name, child in parent.named_children():
            if parametrize.is_parametrized(child, "weight") and isinstance(child, nn.Linear | nn.Conv1d):
                setattr(parent, name, _plain(child))
    return copied


def _plain(module: nn.Linear | nn.Conv1d) -> nn.Linear | nn.Conv1d:
    # PyTorch's own removal would change the class that the copy shares with the original.
    weight, bias = module.weight.detach(), module.get_parameter("bias").detach()
    plain: nn.Linear | nn.Conv1d
    if isinstance(module, nn.Linear):
        plain = nn.Linear(module.in_features, module.out_features)
    else:
        plain = nn.Conv1d(module.in_channels, module.out_channels, module.kernel_size[0], dilation=module.dilation[0])
    plain.weight, plain.bias = nn.Parameter(weight, False), nn.Parameter(bias, False)
    return plain
