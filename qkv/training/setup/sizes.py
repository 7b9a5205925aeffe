"""Model size and length of training by the amount of data."""

from typing import NamedTuple


class Sizes(NamedTuple):
    """A model size, and the number of training tokens of both sides from which on it fits."""

    from_tokens: int
    d_model: int
    d_ff: int
    num_heads: int
    layers: int
    rate: float
    """The highest learning rate."""
    updates: int
    """A good length of a run from scratch."""


SIZES = (
    Sizes(0, 64, 128, 4, 2, 3e-3, 2_000),
    Sizes(50_000, 128, 256, 4, 2, 2e-3, 3_500),
    Sizes(500_000, 128, 512, 4, 3, 2e-3, 6_000),
    Sizes(10_000_000, 256, 1024, 4, 6, 1e-3, 30_000),
    Sizes(100_000_000, 512, 2048, 8, 6, 7e-4, 100_000),
)
"""From a few hundred pairs to the paper's base model. Small ones learn sooner, and a CPU is enough for them."""


def fitting_sizes(tokens: int) -> Sizes:
    """The size for this number of training tokens of both sides."""
    return max((sizes for sizes in SIZES if sizes.from_tokens <= tokens), key=lambda sizes: sizes.from_tokens)
