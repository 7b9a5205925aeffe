"""Windows by `flex_attention` are those of the definition. Here it runs uncompiled, which takes no Triton.

On a CPU it has no backward pass; `qkv doctor` compares gradients on the device that has one.
"""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import scaled_dot_product
from qkv.functional.masks import build_mask
from qkv.kernels.window import Window, window_attention
from qkv.kernels.window.flex import flex_window_attention, suits_flex

B, H, E = 2, 2, 16


def uncompiled(q: Tensor, k: Tensor, v: Tensor, block_mask: Any) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    with warnings.catch_warnings():
        # It says that it should be compiled.
        warnings.simplefilter("ignore")
        return flex_attention(q, k, v, block_mask=block_mask)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("left", "right"), [(3, 2), (5, 0), (0, 0), (200, 1)])
def test_values_are_those_of_the_definition_and_of_the_blocks(left: int, right: int, padded: bool) -> None:
    """With 150 positions there are two blocks of queries, and a row of padding that sees nothing."""
    torch.manual_seed(left + 10 * right)
    length = 150
    heads = [torch.randn(B, H, length, E, dtype=torch.float64) for _ in range(3)]
    keep = torch.ones(B, length, dtype=torch.bool)
    keep[1, 100:] = not padded
    given = keep if padded else None
    pos = torch.arange(length)

    def near(query: Tensor, key: Tensor) -> Tensor:
        return (key >= query - left) & (key <= query + right)

    mask = build_mask(near, pos, pos, keep)
    found = flex_window_attention(heads[0], heads[1], heads[2], left, right, given, uncompiled)
    blocks = window_attention(heads[0], heads[1], heads[2], Window(left, right), given)
    wanted, _ = scaled_dot_product(heads[0], heads[1], heads[2], mask)
    for other in (blocks, wanted):
        assert torch.allclose(found, other, atol=1e-9)
    assert not padded or bool((found[1, :, 100 + left :] == 0).all())


def test_where_it_is_used() -> None:
    """Never on a CPU, whose blocks are faster than anything that it compiles there."""
    assert not suits_flex(torch.empty(1, 1, 4096, 64))
