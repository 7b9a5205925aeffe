"""Which attention heads of a Transformer have been removed."""

from pydantic import Field

from qkv.config.base import Config

Removed = tuple[tuple[int, ...], ...]
"""The heads removed from each layer, counted from 1."""


class PrunedHeads(Config):
    """Heads that have been removed: for each layer a list of their numbers among the `num_heads` heads, from 1 on."""

    encoder: Removed = Field(default=())
    """Of the encoder's self-attention; empty: none in any layer."""
    decoder: Removed = Field(default=())
    """Of the decoder's self-attention."""
    cross: Removed = Field(default=())
    """Of the decoder's cross-attention."""

    def kept(self, side: str, depth: int, num_heads: int) -> list[int]:
        """The heads that are left in the layer at `depth` (0: the first), counted from 0."""
        removed: Removed = getattr(self, side)
        gone = removed[depth] if removed else ()
        return [head for head in range(num_heads) if head + 1 not in gone]

    def problem(self, side: str, num_heads: int, num_layers: int) -> str | None:
        """Why these cannot be the removed heads of one side; None: they can."""
        removed: Removed = getattr(self, side)
        if removed and len(removed) != num_layers:
            return (
                f"{side} has {len(removed)} lists for {num_layers} layers with weights of their own; give one a layer"
            )
        for layer, gone in enumerate(removed, start=1):
            if wrong := [head for head in gone if not 1 <= head <= num_heads]:
                return f"{side}, layer {layer}: there is no head {wrong[0]}; heads count from 1 to {num_heads}"
            if len(set(gone)) == num_heads:
                return f"{side}, layer {layer}: one head must stay"
        return None
