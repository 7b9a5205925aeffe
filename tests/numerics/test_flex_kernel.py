"""Windows and biases by `flex_attention` are those of the definition. Here it runs uncompiled, which takes no Triton.

On a CPU it has no backward pass; `qkv doctor` compares gradients on the device that has one.
"""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import scaled_dot_product
from qkv.functional.masks import build_mask, causal
from qkv.kernels.flex_bias import flex_bias_attention
from qkv.kernels.window import Window, window_attention
from qkv.kernels.window.flex import flex_window_attention, suits_flex
from qkv.layers.positions import Positions, positions
from qkv.layers.positions.attention import attention_with_positions

B, H, E = 2, 2, 16


def uncompiled(q: Tensor, k: Tensor, v: Tensor, **how: Any) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    with warnings.catch_warnings(), torch.no_grad():
        # It says that it should be compiled.
        warnings.simplefilter("ignore")
        output: Tensor = flex_attention(q, k, v, **how)
    return output


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


def scheme(kind: str, heads: list[int] | None = None) -> Positions:
    torch.manual_seed(3)
    built = positions[kind]().build(d_model=H * E, num_heads=H, causal=False).double()
    return built if heads is None else built.for_heads(heads)


@pytest.mark.parametrize("placed", ["in a row", "packed"])
@pytest.mark.parametrize("masked", ["nothing", "padding", "causal"])
@pytest.mark.parametrize("kind", ["alibi", "t5"])
def test_a_bias_of_the_distance_is_that_of_the_definition(kind: str, masked: str, placed: str) -> None:
    """200 positions, so that some distances lie beyond the last bucket of T5; one row is padding from 100 on."""
    torch.manual_seed(5)
    length, own = 200, scheme(kind)
    heads = [torch.randn(B, H, length, E, dtype=torch.float64) for _ in range(3)]
    order = torch.arange(length)
    pos = order if placed == "in a row" else torch.stack([order, (order + 70) % length])
    keep = torch.arange(length) < torch.tensor([[length], [100]])
    mask = {
        "nothing": None,
        "padding": keep[:, None, None] & keep[:, None, :, None],
        "causal": build_mask(causal, order, order, None),
    }[masked]
    of_distance = own.bias_of_distance()
    assert of_distance is not None
    found = flex_bias_attention(heads[0], heads[1], heads[2], of_distance, pos, pos, mask, uncompiled)
    wanted = attention_with_positions(own, heads[0], heads[1], heads[2], mask, pos, pos)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)
    assert masked != "padding" or bool((found[1, :, 100:] == 0).all())


@pytest.mark.parametrize("heads", [None, [1]])
@pytest.mark.parametrize("kind", positions.names())
def test_the_function_of_the_distance_is_the_bias(kind: str, heads: list[int] | None) -> None:
    """Value and gradient, for every scheme that has one; a scheme that adds no bias has none."""
    own = scheme(kind, heads)
    q, pos = torch.randn(1, H, 150, E, dtype=torch.float64), torch.arange(150)
    bias, of_distance = own.bias(q, pos, pos), own.bias_of_distance()
    if of_distance is None:
        assert bias is None or own.has_value_term, "add bias_of_distance, or it goes without flex_attention"
        return
    assert bias is not None
    number = torch.arange(bias.shape[1])[:, None, None]
    found = of_distance(number, (pos[None] - pos[:, None])[None])
    torch.testing.assert_close(found[None], bias, rtol=0, atol=1e-12)
    for weight in own.parameters():
        draw = torch.randn_like(bias)
        gradients = [torch.autograd.grad((one * draw).sum(), weight)[0] for one in (found, bias)]
        torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-9)


def test_where_it_is_used() -> None:
    """Never on a CPU, whose blocks are faster than anything that it compiles there."""
    assert not suits_flex(torch.empty(1, 1, 4096, 64))
