"""What a model's output must not depend on: the future, padding, its neighbours in the batch, their order."""

import random
from collections.abc import Sequence
from functools import lru_cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qkv.data.batch import Batch
from qkv.layers.attention import MultiHeadAttention
from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.model import Transformer
from qkv.objectives.teacher_forcing import ObjectiveConfig, TeacherForcing
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, decode, small_model, stir

Lengths = list[tuple[int, int]]
SEED = st.integers(0, 2**32)
LENGTH = st.integers(0, 7)
PAIRS = st.lists(st.tuples(LENGTH, LENGTH), min_size=1, max_size=4)
MORE = st.integers(1, 4) | st.integers(33, 36)
"""Extra columns; how many keys there are decides which kernel computes the attention."""
FORMS = ["post", "pre"]

few = settings(max_examples=15, deadline=None)
each_form = pytest.mark.parametrize("form", FORMS)


@lru_cache
def model_of(form: str) -> Transformer:
    return small_model(3, residual=form, share_embeddings="all").eval()


@lru_cache
def objective() -> TeacherForcing:
    return ObjectiveConfig().build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))


def output_of(model: Transformer, batch: Batch) -> Tensor:
    return decode(model, batch.src, batch.src_keep, batch.tgt_in)


def same(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


def rows_of(batch: Batch, rows: Sequence[int]) -> Batch:
    """Those rows, in that order, as wide as before."""
    index = torch.tensor(rows)
    return Batch(
        batch.src[index],
        batch.src_keep[index],
        batch.tgt_in[index],
        batch.tgt_out[index],
        batch.tgt_weight[index],
        examples=[batch.examples[row] for row in rows],
    )


def garbage(like: Tensor, seed: int) -> Tensor:
    return torch.randint(0, VOCAB, like.shape, generator=torch.Generator().manual_seed(seed))


def wider(batch: Batch, src_columns: int, tgt_columns: int) -> Batch:
    """The same sentences with more padding."""
    pad = torch.nn.functional.pad
    src, src_keep = (pad(tensor, (0, src_columns)) for tensor in (batch.src, batch.src_keep))
    tgt_in, tgt_out, weight = (pad(each, (0, tgt_columns)) for each in (batch.tgt_in, batch.tgt_out, batch.tgt_weight))
    return Batch(src, src_keep, tgt_in, tgt_out, weight, examples=batch.examples)


def littered(batch: Batch, seed: int) -> Batch:
    """Random tokens where the padding is."""
    counts = batch.tgt_weight > 0
    src = torch.where(batch.src_keep, batch.src, garbage(batch.src, seed))
    tgt_in = torch.where(counts, batch.tgt_in, garbage(batch.tgt_in, seed + 1))
    tgt_out = torch.where(counts, batch.tgt_out, garbage(batch.tgt_out, seed + 2))
    return Batch(src, batch.src_keep, tgt_in, tgt_out, batch.tgt_weight, batch.examples)


@each_form
@few
@given(PAIRS, SEED, st.data())
def test_a_later_target_token_changes_nothing_before_it(
    form: str, pairs: Lengths, seed: int, data: st.DataObject
) -> None:
    batch, model = batch_of(pairs, seed), model_of(form)
    first = data.draw(st.integers(0, batch.tgt_in.shape[1] - 1))
    changed = batch.tgt_in.clone()
    changed[:, first:] = (changed[:, first:] + 1) % VOCAB
    before, after = output_of(model, batch), decode(model, batch.src, batch.src_keep, changed)
    same(after[:, :first], before[:, :first])
    assert bool(((after - before)[:, first].abs().amax(dim=-1) > 1e-4).all())


@each_form
@pytest.mark.parametrize("length", [1, 6, 12, 40])
def test_no_gradient_flows_back_from_the_past_to_the_future(form: str, length: int) -> None:
    """∂ decoded_t / ∂ embedded_s is exactly 0 for s > t, and not 0 for s ≤ t."""
    batch, model, seen = batch_of([(4, length - 1)]), model_of(form), []
    hook = model.tgt_embedder.register_forward_hook(lambda module, inputs, output: seen.append(output))
    decoded = model.states(batch.src, batch.src_keep, batch.tgt_in)
    hook.remove()
    for position in {0, length // 2, length - 1}:
        direction = torch.randn(decoded.shape[-1], generator=torch.Generator().manual_seed(position))
        (gradient,) = torch.autograd.grad(decoded[0, position] @ direction, seen[0], retain_graph=True)
        assert bool(gradient[0, : position + 1].abs().amax(dim=-1).gt(0).all())
        assert not gradient[0, position + 1 :].any()


@each_form
@few
@given(PAIRS, SEED, MORE, MORE)
def test_more_padding_and_what_stands_in_it_change_nothing(
    form: str, pairs: Lengths, seed: int, src_columns: int, tgt_columns: int
) -> None:
    batch, model = batch_of(pairs, seed), model_of(form)
    other = littered(wider(batch, src_columns, tgt_columns), seed)
    keep, counts = batch.src_keep, batch.tgt_weight > 0
    with torch.no_grad():
        memory, other_memory = model.encode(batch.src, keep), model.encode(other.src, other.src_keep)
        loss, other_loss = (objective().training_loss(model, each, 1) for each in (batch, other))
    same(other_memory[:, : keep.shape[1]][keep], memory[keep])
    same(output_of(model, other)[:, : counts.shape[1]][counts], output_of(model, batch)[counts])
    torch.testing.assert_close(other_loss.sum, loss.sum, rtol=1e-5, atol=1e-5)
    assert other_loss.weight == loss.weight


@each_form
@few
@given(PAIRS, SEED, st.integers(0, 50))
def test_a_sentence_alone_is_the_sentence_in_a_batch(form: str, pairs: Lengths, seed: int, longest: int) -> None:
    pairs = [*pairs, (longest, longest)]
    batch, model = batch_of(pairs, seed), model_of(form)
    together = output_of(model, batch)
    for row in range(len(pairs)):
        src = batch.src[row][batch.src_keep[row]][None]
        tgt_in = batch.tgt_in[row][batch.tgt_weight[row] > 0][None]
        alone = decode(model, src, torch.ones_like(src, dtype=torch.bool), tgt_in)
        same(alone[0], together[row, : tgt_in.shape[1]])


@each_form
@few
@given(PAIRS, SEED)
def test_the_order_of_a_batch_does_not_matter(form: str, pairs: Lengths, seed: int) -> None:
    batch, model = batch_of(pairs, seed), model_of(form)
    order = list(range(len(pairs)))
    random.Random(seed).shuffle(order)
    same(output_of(model, rows_of(batch, order)), output_of(model, batch)[torch.tensor(order)])


@each_form
@few
@given(PAIRS, SEED, st.sampled_from([0, 40]))
def test_a_source_of_only_padding_does_not_poison_its_batch(form: str, pairs: Lengths, seed: int, more: int) -> None:
    """Finite output and finite gradients for it, the same as ever for the others; short and long."""
    pairs = [(3, 4), *pairs]
    batch = wider(batch_of(pairs, seed), more, more)
    empty = Batch(batch.src, batch.src_keep.clone(), batch.tgt_in, batch.tgt_out, batch.tgt_weight, batch.examples)
    empty.src_keep[0] = False
    model = model_of(form)
    found = output_of(model, empty)
    assert bool(torch.isfinite(found).all())
    others = torch.tensor(range(1, len(pairs)))
    same(found[others], output_of(model, batch)[others])

    model.zero_grad()
    objective().training_loss(model, empty, 1).sum.backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)
    model.zero_grad()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("keys", [1, 5, 12, 40])
def test_attention_to_no_key_adds_nothing_but_the_bias_of_the_output(keys: int, dropout: float) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, 2, dropout)
    stir(attention)
    x = torch.randn(2, keys, 16, requires_grad=True)
    keep = torch.tensor([[False], [True]]).expand(2, keys)
    pos = torch.arange(keys)
    found = attention(x, AttentionContext(pos, pos, keep=keep))
    assert torch.equal(found[0], attention.output.bias.expand(keys, 16))
    assert not torch.allclose(found[1], attention.output.bias.expand(keys, 16))
    found.square().sum().backward()
    assert x.grad is not None
    assert not x.grad[0].any()
    assert x.grad[1].any()


@few
@given(SEED, st.integers(2, 8))
def test_without_positions_the_order_of_the_source_does_not_matter(seed: int, length: int) -> None:
    """The memory is permuted with the source, and what is decoded from it stays the same; with positions neither."""
    blind, seeing = small_model(positions="none"), small_model()
    batch = batch_of([(length, 4), (length - 2, 3)], seed)
    order = torch.arange(batch.src.shape[1]).roll(1)
    for model, matters in ((blind, False), (seeing, True)):
        with torch.no_grad():
            memory = model.encode(batch.src, batch.src_keep)
            permuted = model.encode(batch.src[:, order], batch.src_keep[:, order])
        decoded = output_of(model, batch)
        moved = decode(model, batch.src[:, order], batch.src_keep[:, order], batch.tgt_in)
        keep = batch.src_keep[:, order]
        assert torch.allclose(permuted[keep], memory[:, order][keep], rtol=0, atol=1e-5) != matters
        assert torch.allclose(moved, decoded, rtol=0, atol=1e-5) != matters
