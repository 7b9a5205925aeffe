"""How large a model some amount of data can fill."""

from typing import NamedTuple


class Sizes(NamedTuple):
    """A model, and from how many training tokens of both sides on it fits."""

    from_tokens: int
    d_model: int
    d_ff: int
    num_heads: int
    layers: int


SIZES = (
    Sizes(0, 64, 256, 4, 2),
    Sizes(50_000, 128, 512, 4, 2),
    Sizes(500_000, 128, 512, 4, 4),
    Sizes(10_000_000, 256, 1024, 4, 6),
    Sizes(100_000_000, 512, 2048, 8, 6),
)
"""From a few hundred pairs to the paper's base model. Small ones learn sooner, and a CPU is enough for them."""


def fitting_sizes(tokens: int) -> Sizes:
    """The sizes for so many training tokens of both sides."""
    return max((sizes for sizes in SIZES if sizes.from_tokens <= tokens), key=lambda sizes: sizes.from_tokens)
