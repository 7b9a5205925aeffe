"""The layer of LSH attention: its hashes, what an output must not depend on, and where it is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from qkv.core.errors import QkvError
from qkv.functional.attention import merge_heads, split_heads
from qkv.functional.lsh import bucket_counts, found_pairs, hash_sizes, lsh_attention, shared_keys
from qkv.functional.masks import causal, within
from qkv.layers.attention.base import Block
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.lsh import LshAttention
from qkv.layers.positions.rope import Rope
from qkv.models.transformer.config import TransformerConfig
from tests.support.small import small_config, stir

LENGTHS = [40, 23, 9, 4, 1]
"""Ten chunks, six, three, one, and one position."""


def layer(**changes: Any) -> LshAttention:
    torch.manual_seed(0)
    made = LshAttention(12, 2, **{"rounds": 2, "chunk": 4, **changes}).double().eval()
    stir(made)
    return made


def view_of(length: int, keep: Tensor | None = None, is_causal: bool = False) -> AttentionContext:
    pos = torch.arange(length)
    return AttentionContext(pos, pos, causal if is_causal else None, keep)


def batch() -> tuple[Tensor, Tensor]:
    x = torch.randn(len(LENGTHS), max(LENGTHS), 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x, torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def test_the_number_of_buckets_grows_with_the_length_and_not_with_the_price() -> None:
    counts = bucket_counts(torch.tensor([1, 4, 5, 8, 9, 128, 129, 40_000]), 4)
    assert counts.tolist() == [1, 1, 4, 4, 6, 64, 66, 20_000]
    sizes = hash_sizes(counts)
    assert sizes[:6].tolist() == [[1, 1], [1, 1], [4, 1], [4, 1], [6, 1], [64, 1]]
    assert sizes[6:].tolist() == [[10, 8], [142, 142]]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("positions", [None, Rope(6)])
def test_it_is_the_definition_with_its_own_buckets(is_causal: bool, positions: Rope | None) -> None:
    attention, (x, keep) = layer(positions=positions), batch()
    q = attention.positions.rotate(split_heads(attention.query(x), 2), torch.arange(40))
    found = found_pairs(attention.hash(q, keep, training=False), 4, True, keep)
    context = lsh_attention(q, shared_keys(q), split_heads(attention.value(x), 2), found, is_causal)
    expected = attention.output(merge_heads(context))
    torch.testing.assert_close(attention(x, view_of(40, keep, is_causal)), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("buckets", [None, 6])
def test_neither_padding_nor_neighbours_change_anything(buckets: int | None) -> None:
    attention, (x, keep) = layer(buckets=buckets), batch()
    together = attention(x, view_of(40, keep))
    for row, length in enumerate(LENGTHS):
        fresh = layer(buckets=buckets)  # what one of them has drawn for the others must not matter
        alone = fresh(x[row : row + 1, :length], view_of(length))
        torch.testing.assert_close(together[row, :length], alone[0], rtol=0, atol=1e-10)
    kept = pad(keep, (0, 7))
    garbage = pad(x, (0, 0, 0, 7)).masked_fill(~kept[..., None], 1e3)
    wider = attention(garbage, view_of(47, kept))
    torch.testing.assert_close(wider[:, :40][keep], together[keep], rtol=0, atol=1e-10)


def test_a_sentence_of_only_padding_gets_the_bias_of_the_output_and_no_gradient() -> None:
    attention, (x, keep) = layer(), batch()
    keep[2] = False
    x.requires_grad_()
    found = attention(x, view_of(40, keep))
    torch.testing.assert_close(found[2], attention.output.bias.expand(40, 12))
    found.square().sum().backward()
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())
    assert not x.grad[2].any()


def test_causal_means_that_the_future_has_no_gradient() -> None:
    attention = layer(rounds=3)
    x = torch.randn(1, 14, 12, dtype=torch.float64)

    def run(x: Tensor) -> Tensor:
        return attention(x, view_of(14, is_causal=True)).sum(dim=-1)

    reach = torch.autograd.functional.jacobian(run, x)[0, :, 0].abs().sum(dim=-1)
    assert not reach.triu(1).any()
    assert bool((reach.tril(-1) > 0).any())


def test_training_draws_hashes_and_using_it_does_not() -> None:
    attention, (x, _) = layer(), batch()
    first = attention(x, view_of(40))
    torch.manual_seed(5)
    assert torch.equal(attention(x, view_of(40)), first)
    attention.train()
    drawn = attention(x, view_of(40))
    assert not torch.equal(attention(x, view_of(40)), drawn)
    torch.manual_seed(5)
    assert torch.equal(attention(x, view_of(40)), drawn)
    found = attention.faster_inference().extend(x, None, Block(view_of(40), 40))
    torch.testing.assert_close(found, first)


def test_rounds_may_differ_between_training_and_use() -> None:
    attention, (x, _) = layer(rounds=2, test_rounds=5), batch()
    q = split_heads(attention.query(x), 2)
    assert len(attention.hash(q, None, training=True)) == 2
    assert len(attention.hash(q, None, training=False)) == 5
    assert not torch.allclose(attention(x, view_of(40)), layer(rounds=2)(x, view_of(40)))


def test_layers_of_different_depth_hash_differently() -> None:
    q = split_heads(batch()[0], 2)
    config = small_config(encoder_attention={"kind": "lsh", "chunk": 4}).encoder_attention
    first, second = (config.build(12, 2, 0.0, None, depth) for depth in (0, 1))
    assert isinstance(first, LshAttention)
    assert isinstance(second, LshAttention)
    assert not torch.equal(first.hash(q, None, training=False), second.hash(q, None, training=False))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"decoder_attention": "lsh"},
            "decoder_attention cannot be lsh: .* how many tokens follow; use it as encoder_attention",
        ),
        (
            {"cross_attention": "lsh"},
            "cross_attention cannot be lsh: its queries are .*; use it as encoder_attention",
        ),
        ({"encoder_attention": "lsh", "positions": "alibi"}, "takes no positions that add .* use .*sinusoidal"),
        ({"encoder_attention": {"kind": "lsh", "buckets": 7}}, "use an even number: 8"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_what_would_work(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TransformerConfig(**changes)


def test_another_mask_is_refused() -> None:
    pos = torch.arange(40)
    with pytest.raises(QkvError, match="use full attention"):
        layer()(batch()[0], AttentionContext(pos, pos, within(2)))
