"""The places where a scheme of positions acts inside attention: on queries, on keys, on the scores; never on values."""

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import merge_heads, scaled_dot_product, split_heads
from qkv.functional.masks import causal
from qkv.layers.attention import MultiHeadAttention
from qkv.layers.attention.context import AttentionContext
from qkv.layers.positions.base import Positions

WIDTH, HEADS = 8, 2


class Scheme(Positions):
    """Queries and keys are scaled by their positions, and a near key gets a bonus that differs by head."""

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        return x * (1 + 0.3 * pos)[:, None].to(x)

    def bias(self, q: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        distance = (q_pos[:, None] - k_pos[None, :]).abs().double()
        return -torch.stack([distance, 0.5 * distance])[None]


def expected(
    module: MultiHeadAttention, x: Tensor, memory: Tensor, context: AttentionContext, scheme: Positions
) -> Tensor:
    q, k, v = (
        split_heads(part(y), HEADS) for part, y in ((module.query, x), (module.key, memory), (module.value, memory))
    )
    q, k = scheme.rotate(q, context.q_pos), scheme.rotate(k, context.k_pos)
    output, _ = scaled_dot_product(q, k, v, context.mask, scheme.bias(q, context.q_pos, context.k_pos))
    return module.output(merge_heads(output))


@pytest.fixture
def module() -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(WIDTH, HEADS, positions=Scheme()).double()


@torch.no_grad()
@pytest.mark.parametrize("length", [1, 5, 12, 40])
def test_self_attention(module: MultiHeadAttention, length: int) -> None:
    x, pos = torch.randn(2, length, WIDTH).double(), torch.arange(length)
    context = AttentionContext(pos, pos, causal)
    torch.testing.assert_close(module(x, context), expected(module, x, x, context, Scheme()), rtol=0, atol=1e-10)


@torch.no_grad()
def test_positions_are_absolute(module: MultiHeadAttention) -> None:
    """One query at position 4 over five keys gives the last row of the parallel pass."""
    x, pos = torch.randn(2, 5, WIDTH).double(), torch.arange(5)
    whole = module(x, AttentionContext(pos, pos, causal))
    step = module.cross_attend(x[:, 4:], module.project(x, pos), AttentionContext(pos[4:], pos, causal))
    torch.testing.assert_close(step, whole[:, 4:], rtol=0, atol=1e-10)
    wrong = module.cross_attend(x[:, 4:], module.project(x, pos), AttentionContext(pos[3:4], pos))
    assert not torch.allclose(wrong, whole[:, 4:], rtol=0, atol=1e-3)


@torch.no_grad()
def test_without_a_scheme_nothing_is_turned_or_added() -> None:
    torch.manual_seed(0)
    module = MultiHeadAttention(WIDTH, HEADS).double()
    x, memory = torch.randn(2, 3, WIDTH).double(), torch.randn(2, 6, WIDTH).double()
    context = AttentionContext(torch.arange(3), torch.arange(6))
    found = module.cross_attend(x, module.project(memory, context.k_pos), context)
    torch.testing.assert_close(found, expected(module, x, memory, context, Positions()), rtol=0, atol=1e-10)
