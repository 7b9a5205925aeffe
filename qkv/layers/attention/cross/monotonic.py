"""Hard monotonic attention (Raffel et al. 2017): each output reads on from where the last one stopped."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.attention import scaled_dot_scores
from qkv.functional.monotonic.stops import expected_alignment, hard_stops
from qkv.layers.attention.base import attentions
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.cross.base import CarryingAttention, CrossConfig, SourceNeeded
from qkv.layers.positions.base import Positions

CERTAIN = 50.0
"""sigmoid(50) is 1 in double precision, too."""


class StoppingConfig(CrossConfig):
    """Base class of the kinds that stop at one key."""

    start_bias: float = -1.0
    """Bias of the stop energies at the start; less: a fresh model reads farther with each output."""
    noise: float = Field(default=1.0, ge=0)
    """Standard deviation of the noise on the stop energies in training, which makes the stops decisive."""

    @property
    def streams(self) -> bool:
        return True


@attentions.register
class MonotonicConfig(StoppingConfig):
    """Each head stops at one key, left to right; expected in training, hard at test (Raffel et al. 2017)."""

    kind: Literal["monotonic"] = "monotonic"

    def build(
        self, d_model: int, num_heads: int, dropout: float, positions: Positions | None, depth: int
    ) -> "MonotonicAttention":
        return MonotonicAttention(d_model, num_heads, dropout, self.start_bias, self.noise)


class MonotonicAttention(CarryingAttention):
    """p_ij = sigmoid(q_i·k_j / √E + r): output i reads on from the last stop and stops at key j with probability p_ij.

    In training the weights are the probabilities of all stops, with noise on the energies; in evaluation they are 1 at
    the first key with p_ij > ½. Every head has its own stops (Ma et al. 2020); all of them stop at the last key.
    """

    def __init__(
        self, d_model: int, num_heads: int, dropout: float = 0.0, start_bias: float = -1.0, noise: float = 1.0
    ) -> None:
        super().__init__(d_model, num_heads, dropout)
        self.noise = noise
        self.stop_bias = nn.Parameter(torch.full((num_heads,), start_bias))

    def carried_width(self, keys: int) -> int:
        return 1

    def energies(self, q: Tensor, k: Tensor) -> Tensor:
        """[B, H, Q, K], positive where p > ½; in float32 or wider."""
        energies = scaled_dot_scores(q, k)
        return energies.to(torch.promote_types(energies.dtype, torch.float32)) + self.stop_bias[:, None, None]

    def first(self, q: Tensor, k: Tensor) -> Tensor:
        return q.new_zeros(*q.shape[:2], 1)

    def align(self, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        if not self.training:
            return super().align(q, k, context)
        energies = self.energies(q, k)
        energies = energies + self.noise * torch.randn_like(energies)
        energies = energies.masked_fill(last_key(context)[:, None, None], CERTAIN)
        return expected_alignment(energies, _real(context))

    def follow(self, before: Tensor, q: Tensor, k: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """The key of the last stop is carried."""
        stops, real, keys = self.energies(q, k) > 0, _real(context), k.shape[2]
        if real is not None:
            stops = stops & real
        if context.complete:
            stops = stops | last_key(context)[:, None, None]
        found = hard_stops(stops, before[..., 0].long())
        if not context.complete and bool((found == keys).any()):
            raise SourceNeeded
        weights = F.one_hot(found, keys + 1)[..., :keys].to(q.dtype)
        return weights, found[..., None].to(q.dtype)


def last_key(context: AttentionContext) -> Tensor:
    """[B|1, K], True for the last real key of each sentence."""
    at = torch.arange(len(context.k_pos), device=context.k_pos.device)
    if context.keep is None:
        return (at == len(at) - 1)[None]
    return at == (at * context.keep).amax(dim=-1, keepdim=True)


def _real(context: AttentionContext) -> Tensor | None:
    """[B, 1, 1, K]"""
    return None if context.keep is None else context.keep[:, None, None]
