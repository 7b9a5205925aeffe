"""Gates on the heads of an attention, which training may close for good."""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.config.base import Config
from qkv.functional.heads.gates import TEMPERATURE, drawn_gates, open_probability, settled_gates
from qkv.layers.attention.base import Attention

EDGE = 1e-6
"""Uniform numbers keep this distance from 0 and 1, where the logarithms end."""


class HeadGatesConfig(Config):
    """A gate on every head of every attention, drawn in training, and a price for each that may be open."""

    penalty: float = Field(gt=0, le=1000)
    """λ: the loss of a target token grows by λ times the expected number of open heads."""
    temperature: float = Field(default=TEMPERATURE, gt=0, le=10)
    """τ of the hard concrete distribution."""
    start: float = Field(default=2.0, ge=-10, le=10)
    """log a of every gate at the beginning; at 2, a gate is open with probability 0.94."""


class GatedLinear(nn.Linear):
    """W_o of heads that are multiplied by gates g_h: Concat(g_1 head_1, ..., g_H head_H) W_o.

    In training the gates are drawn once for each pass; otherwise they are settled.
    """

    def __init__(self, linear: nn.Linear, num_heads: int, config: HeadGatesConfig) -> None:
        super().__init__(linear.in_features, linear.out_features, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.penalty, self.temperature = config.penalty, config.temperature
        self.log_a = nn.Parameter(linear.weight.new_full((num_heads,), config.start))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.gated_weight(), self.bias)

    def gated_weight(self) -> Tensor:
        """W_o with the gates in it."""
        width = self.in_features // len(self.log_a)
        return self.weight * self.gates().repeat_interleave(width)

    def gates(self) -> Tensor:
        """[H], drawn in training, else settled."""
        if not self.training:
            return settled_gates(self.log_a)
        return drawn_gates(self.log_a, torch.rand_like(self.log_a).clamp(EDGE, 1 - EDGE), self.temperature)

    def cost(self) -> Tensor:
        """λ Σ_h P(g_h ≠ 0)"""
        return self.penalty * open_probability(self.log_a, self.temperature).sum()


def add_gates(attention: Attention, config: HeadGatesConfig) -> None:
    """Put a gate on each head, in place."""
    attention.output = GatedLinear(attention.output, attention.num_heads, config)


def settle_gates(attention: Attention) -> list[int]:
    """Multiply W_o by its settled gates and take the gates away, in place; returns the heads that were closed, from 0.

    An attention without gates has none that are closed.
    """
    gated = attention.output
    if not isinstance(gated, GatedLinear):
        return []
    with torch.no_grad():
        gates = settled_gates(gated.log_a)
        width = gated.in_features // len(gates)
        plain = nn.utils.skip_init(nn.Linear, gated.in_features, gated.out_features, dtype=gated.weight.dtype)
        plain.weight.copy_(gated.weight * gates.repeat_interleave(width))
        plain.bias.copy_(gated.bias)
    attention.output = plain.train(gated.training)
    return [head for head, gate in enumerate(gates.tolist()) if gate == 0]
