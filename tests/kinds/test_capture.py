"""Captured attention weights: those of the definition, for every kind, and the outputs do not change."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.core.errors import UsageError
from qkv.functional.attention import attention_weights, merge_heads, split_heads
from qkv.functional.masks import causal
from qkv.inference.transformer import TransformerInference
from qkv.layers.attention import Attention, LongformerAttention, LshAttention
from qkv.layers.attention.base import share_heads
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.head_passes import capture_heads
from qkv.layers.attention.recording import capture_attention
from qkv.layers.positions import positions
from qkv.models.transformer.stacks import stacks
from qkv.models.transformer.wirings import wirings
from qkv.search.models import ModelSteps
from tests.support.attentions import CAUSAL, ENCODER, FOLLOWING, Setting, build, everywhere, ragged
from tests.support.parts import random_tokens, sources
from tests.support.small import batch_of, decode, small_model

NAMES = [f"{side}.layers.{layer}.attention" for side in ("encoder", "decoder") for layer in (0, 1)]
CROSS_NAMES = [f"decoder.layers.{layer}.cross_attention" for layer in (0, 1)]


def read_with(module: Attention, x: Tensor, weights: Tensor, context: AttentionContext) -> Tensor:
    """What attention with these weights gives."""
    if isinstance(module, LshAttention):
        values = split_heads(module.value(x), module.num_heads)
    else:
        values = share_heads(module.heads(x, context)[2], module.num_heads)
    if isinstance(module, LongformerAttention):
        own = split_heads(module.value_global(x), module.num_heads)
        chosen = module.is_global(context, len(x))[:, None, :, None]
        output = (weights @ own).where(chosen, weights @ values)
    else:
        output = weights @ values
    mixed = module.positions.value_term(weights, context.q_position_ids, context.k_position_ids)
    return module.output(merge_heads(output if mixed is None else output + mixed))


@pytest.mark.parametrize("setting", ENCODER, ids=str)
def test_weights_are_those_that_the_output_was_computed_with(setting: Setting) -> None:
    module, pos = build(setting), torch.arange(11)
    x, keep = torch.randn(2, 11, 16, dtype=torch.float64), ragged([11, 6])
    context = AttentionContext(pos, pos, None, keep)
    plain = module(x, context)
    with capture_attention(module) as record:
        assert torch.equal(module(x, context), plain)
    (weights,) = record.passes[""]
    assert weights.shape == (2, 4, 11, 11)
    torch.testing.assert_close(weights.sum(-1)[keep[:, None].expand(-1, 4, -1)], torch.ones(4 * 17).double())
    assert not weights[1, :, :, 6:].any()
    torch.testing.assert_close(read_with(module, x, weights, context)[keep], plain[keep], atol=1e-6, rtol=0)


@pytest.mark.parametrize("scheme", positions.names())
@pytest.mark.parametrize("setting", CAUSAL, ids=str)
def test_weights_know_positions_and_the_causal_mask(setting: Setting, scheme: str) -> None:
    module, pos = build(setting, scheme, looks_back=True), torch.arange(9)
    x, context = torch.randn(1, 9, 16, dtype=torch.float64), AttentionContext(pos, pos, causal)
    with capture_attention(module) as record:
        found = module(x, context)
    (weights,) = record.passes[""]
    assert not weights.triu(1).any()
    torch.testing.assert_close(read_with(module, x, weights, context), found, atol=1e-6, rtol=0)


PARTS: list[dict[str, Any]] = [
    *({"positions": kind} for kind in positions.names()),
    *({"wiring": kind} for kind in wirings.names()),
    *({"stack": kind, "residual": "pre"} for kind in stacks.names()),
    *(everywhere(setting) for setting in [*ENCODER[1:], *FOLLOWING]),
]


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_cached_decoding_has_the_weights_of_the_parallel_pass(parts: dict[str, Any]) -> None:
    model = small_model(**parts).double().eval()
    src, keep = sources([5, 3])
    tokens = torch.stack(random_tokens(2, 7), dim=1)
    with torch.no_grad(), capture_attention(model) as parallel:
        watched = model.states(src, keep, tokens)
    with torch.no_grad():
        assert torch.equal(model.states(src, keep, tokens), watched)
    fast = TransformerInference(model)
    with torch.no_grad(), capture_attention(model) as cached:
        state = fast.start(src, keep)
        for first, width in ((0, 1), (1, 1), (2, 3), (5, 2)):
            _, state = fast.extend(tokens[:, first : first + width], state)
    assert set(cached) == set(parallel)
    for name, passes in parallel.passes.items():
        steps = cached.passes[name]
        if parts.get("stack") == "adaptive" and not name.startswith("encoder"):
            continue  # how many depths a pass takes depends on its positions
        # One layer at several depths: its passes alternate.
        for depth, wanted in enumerate(passes):
            found = [F.pad(each, (0, wanted.shape[3] - each.shape[3])) for each in steps[depth :: len(passes)]]
            torch.testing.assert_close(torch.cat(found, dim=2), wanted, atol=1e-8, rtol=0)


DOT_PRODUCTS: list[dict[str, Any]] = [
    *({"positions": kind} for kind in positions.names()),
    *({"wiring": kind} for kind in wirings.names()),
    *({"stack": kind, "residual": "pre"} for kind in stacks.names()),
]


@pytest.mark.parametrize("parts", DOT_PRODUCTS, ids=str)
def test_weights_in_a_model_are_softmax_of_its_own_queries_and_keys(parts: dict[str, Any]) -> None:
    """A = softmax(q kᵀ / √E + bias) over the keys that the mask allows, and each row sums to one."""
    model = small_model(**parts).double().eval()
    src, keep = sources([5, 3])
    with torch.no_grad(), capture_attention(model) as record, capture_heads() as heads:
        model.states(src, keep, torch.stack(random_tokens(2, 6), dim=1))
    for name, passes in record.passes.items():
        module = model.get_submodule(name)
        assert isinstance(module, Attention)
        for made, weights in zip(heads[name], passes, strict=True):
            context, shared = made.context, share_heads(made.k, len(weights[0]))
            bias = module.positions.bias(made.q, context.q_position_ids, context.k_position_ids)
            wanted = attention_weights(made.q, shared, context.mask, bias)
            torch.testing.assert_close(weights, wanted, atol=1e-6, rtol=0)
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), atol=1e-6, rtol=0)


def test_names_layers_and_heads() -> None:
    model, batch = small_model().eval(), batch_of([(4, 3), (2, 5)])
    with capture_attention(model) as record:
        decode(model, batch.src, batch.src_keep, batch.tgt_in)
    assert sorted(record) == sorted([*NAMES, *CROSS_NAMES])
    assert len(record) == 6
    assert record["encoder.layers.1.attention"].shape == (2, 2, 5, 5)
    assert record["decoder.layers.0.cross_attention"].shape == (2, 2, 6, 5)


def test_training_is_the_same_with_and_without() -> None:
    """Dropout draws the same random numbers, and the gradients are the same."""
    found = []
    for watched in (False, True):
        model, batch = small_model(dropout=0.3, attention_dropout=0.2), batch_of([(4, 3), (2, 5)])
        torch.manual_seed(3)
        if watched:
            with capture_attention(model) as record:
                out = model.states(batch.src, batch.src_keep, batch.tgt_in)
            assert not any(weights.requires_grad for passes in record.passes.values() for weights in passes)
        else:
            out = model.states(batch.src, batch.src_keep, batch.tgt_in)
        out.sin().sum().backward()
        found.append([out, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_beams_are_the_queries_of_their_sentence() -> None:
    model = small_model().eval()
    steps = ModelSteps(model)
    src, keep = sources([5, 3])
    plain = steps.step(torch.full((6,), 7), steps.start(src, keep, beams=3))[0].log_probs
    with capture_attention(model) as record:
        watched = steps.step(torch.full((6,), 7), steps.start(src, keep, beams=3))[0].log_probs
    assert torch.equal(plain, watched)
    assert record["decoder.layers.0.cross_attention"].shape == (2, 2, 3, 6)


def test_another_model_is_not_recorded() -> None:
    model, other, batch = small_model().eval(), small_model(1).eval(), batch_of([(4, 3)])
    with capture_attention(model) as record:
        decode(other, batch.src, batch.src_keep, batch.tgt_in)
    assert len(record) == 0


def test_passes_of_different_batches_are_not_joined() -> None:
    model = small_model().eval()
    with capture_attention(model) as record:
        for lengths in ([(4, 3)], [(4, 3), (2, 2)]):
            batch = batch_of(lengths)
            decode(model, batch.src, batch.src_keep, batch.tgt_in)
    with pytest.raises(UsageError, match="different numbers of rows"):
        record["encoder.layers.0.attention"]
    assert [len(weights) for weights in record.passes["encoder.layers.0.attention"]] == [1, 2]


def test_nothing_is_recorded_outside() -> None:
    model, batch = small_model().eval(), batch_of([(4, 3)])
    with capture_attention(model) as record:
        pass
    decode(model, batch.src, batch.src_keep, batch.tgt_in)
    assert len(record) == 0
