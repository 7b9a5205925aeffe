"""The base class of position schemes, its config, and the registry."""

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.kernels.flex_bias import OfDistance


class Positions(nn.Module):
    """Positions act at `embed`, `rotate`, `bias` and `value_term`; a scheme overrides those it needs.

    This base class is the identity. Positions are absolute: `pos` is [T] or [B, T].

    Examples:
        >>> import torch
        >>> from qkv import Positions
        >>> class Ramp(Positions):
        ...     def embed(self, x, pos):
        ...         return x + pos[:, None] / 100
        >>> Ramp().embed(torch.zeros(1, 3, 2), torch.arange(3))[0, :, 0]
        tensor([0.0000, 0.0100, 0.0200])
    """

    max_length: int | None = None
    """How many positions there are; None: no limit."""
    has_value_term: bool = False
    """Whether there is a `value_term`: then attention must compute its weights explicitly."""

    def for_layer(self) -> "Positions":
        """What the attention of one layer uses: this, or a scheme with the layer's own parameters."""
        return self

    def for_heads(self, heads: Sequence[int]) -> "Positions":
        """What an attention uses that has only these of the heads, counted from 0: this, if all heads are alike."""
        return self

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """Add to the embedded tokens [B, T, D]."""
        return x

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """Rotate queries or keys [B, H, T, E] by their positions."""
        return x

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B|1, H, Q, K] to be added to the scaled logits; `q` [B, H, Q, E] are the rotated queries."""
        return None

    def bias_of_distance(self) -> OfDistance | None:
        """`bias` as a function of head and distance, if it is one: some kernels compute it where it is added."""
        return None

    def value_term(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B, H, Q, E] to be added to the output of attention with `weights` [B, H, Q, K]."""
        return None


class SomeHeads(Positions):
    """A scheme that adds another bias to each head, for some of the heads."""

    def __init__(self, every: Positions, heads: Sequence[int]) -> None:
        super().__init__()
        self.every = every
        self.heads = list(heads)

    def for_heads(self, heads: Sequence[int]) -> Positions:
        return SomeHeads(self.every, [self.heads[head] for head in heads])

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        bias = self.every.bias(q, q_pos, k_pos)
        return None if bias is None else bias[:, self.heads]

    def bias_of_distance(self) -> OfDistance | None:
        every = self.every.bias_of_distance()
        if every is None:
            return None
        heads = torch.tensor(self.heads, device=next(chain(self.parameters(), self.buffers())).device)
        return lambda head, distance: every(heads[head], distance)


class PositionsConfig(Config):
    """Base class of the configs of position kinds.

    Examples:
        >>> from qkv import positions
        >>> type(positions["rope"]().build(d_model=64, num_heads=4, causal=True)).__name__
        'Rope'
    """

    sees: ClassVar[Literal["places", "distances", "nothing"]] = "places"
    """Which information the scheme gives the model: with `distances`, 5 and 7 are the same as 1005 and 1007."""
    on_logits: ClassVar[bool] = False
    """Whether it adds to the logits or to the output of attention."""

    @property
    def limit(self) -> int | None:
        """The longest sequence, END included; None: any length."""
        return None

    def length_problem(self, longest: int) -> str | None:
        """Why it does not support sequences of so many tokens, END included; None: it does."""
        if self.limit is None or longest <= self.limit:
            return None
        return (
            f"model.positions.max_length ({self.limit}) is below data.max_src_tokens or max_tgt_tokens ({longest}); "
            "raise the one or lower the other"
        )

    def problem(self, d_model: int, num_heads: int) -> str | None:
        """Why it does not support these sizes; None: it does."""
        return None

    def build(self, d_model: int, num_heads: int, causal: bool) -> Positions:
        """For one stack; `causal`: no key follows its query."""
        raise NotImplementedError


positions = Kinds[PositionsConfig]("positions")
"""Registry of the position kinds."""
