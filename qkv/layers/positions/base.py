"""The places where positions act. A scheme overrides those it needs; this base is "no positions"."""

from typing import ClassVar, Literal

from torch import Tensor, nn

from qkv.config.base import Config, Kinds


class Positions(nn.Module):
    """Identity at every place. Positions are absolute: `pos` is [T] or [B, T].

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
    """Whether `value_term` adds something: then attention computes its weights openly."""

    def for_layer(self) -> "Positions":
        """What the attention of one layer uses: this, or a table of the layer's own."""
        return self

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """Add to the embedded tokens [B, T, D]."""
        return x

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """Turn queries or keys [B, H, T, E], each by its own positions."""
        return x

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B|1, H, Q, K] to be added to the scaled logits; `q` [B, H, Q, E] are the rotated queries."""
        return None

    def value_term(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B, H, Q, E] to be added to the context that attention with `weights` [B, H, Q, K] reads."""
        return None


class PositionsConfig(Config):
    """Where a token stands, told to the model: base class of the position kinds.

    Examples:
        >>> from qkv import positions
        >>> type(positions["rope"]().build(d_model=64, num_heads=4, causal=True)).__name__
        'Rope'
    """

    sees: ClassVar[Literal["places", "distances", "nothing"]] = "places"
    """What of the positions reaches the model: with `distances`, 5 and 7 are as 1005 and 1007."""
    on_logits: ClassVar[bool] = False
    """Whether it adds to the logits of attention, or to its context."""

    @property
    def limit(self) -> int | None:
        """The longest sequence, END included; None: any length."""
        return None

    def problem(self, d_model: int, num_heads: int) -> str | None:
        """Why these sizes do not go with it; None: they do."""
        return None

    def build(self, d_model: int, num_heads: int, causal: bool) -> Positions:
        """For one stack; `causal`: no key stands behind its query."""
        raise NotImplementedError


positions = Kinds[PositionsConfig]("positions")
"""Registry of the position kinds."""
