"""A model of reversible layers: the gradients of stored activations, and memory that does not grow with the depth."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.kernels.recompute import undo
from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.models.transformer.stacks import reversible
from qkv.models.transformer.stacks.base import Layers, LayerSchedule
from qkv.models.transformer.stacks.reversible import Reversible, branch
from tests.support.memory import saved_bytes
from tests.support.small import batch_of, small_model

PARTS: list[dict[str, Any]] = [
    {"residual": "pre"},
    {"residual": "sandwich", "share_layers": True},
    {"residual": "rezero", "positions": "t5"},
    {"residual": "pre", "encoder_attention": {"kind": "lsh", "chunk": 2}, "attention_dropout": 0.2},
    {"residual": "pre", "feed_forward_chunk": 2},
]


class Stored(LayerSchedule):
    """The same two streams with everything kept."""

    def forward(self, x: Tensor, layers: Layers, context: AttentionContext) -> Tensor:
        a, b = x, x
        for number in range(self.num_layers):
            for connection, f in layers.sublayers(number):
                a, b = b, a + branch(connection, f, b)
        return (a + b) / 2


def with_depth(make: Callable[[int], LayerSchedule], parts: dict[str, Any]) -> Transformer:
    model = small_model(stack="reversible", dropout=0.2, **parts).double()
    for stack in (model.encoder, model.decoder):
        stack.depth = make(stack.num_layers)
    return model


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_gradients_equal_those_of_stored_activations_with_dropout_on(parts: dict[str, Any]) -> None:
    batch = batch_of([(5, 4), (3, 6)])
    found: list[dict[str, Tensor]] = []
    for make in (Reversible, Stored):
        model = with_depth(make, parts)
        torch.manual_seed(3)
        out = model.states(batch.src, batch.src_keep, batch.tgt_in)
        out.sin().sum().backward()
        found.append({"out": out} | {name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    ours, theirs = found
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-10, msg=name)


def test_the_input_of_a_trained_encoder_is_found_again() -> None:
    model, batch = small_model(stack="reversible", residual="pre", encoder_layers=6).double(), batch_of([(5, 1)])
    pos = torch.arange(5)
    branches = [
        lambda x, part=part: branch(part[0], part[1], x)
        for layer in model.encoder.in_order()
        for part in layer.sublayers(AttentionContext(pos, pos))
    ]
    with torch.no_grad():
        x = model.src_embedder(batch.src[:, :5], pos)
        a, b = x, x
        for each in branches:
            a, b = b, a + each(b)
        torch.testing.assert_close(undo(a, b, branches), (x, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("stack", ["layers", "reversible"])
def test_training_keeps_the_same_for_every_depth(stack: str) -> None:
    def kept(depth: int) -> int:
        model = small_model(stack=stack, residual="pre", encoder_layers=depth, decoder_layers=depth, dropout=0.1)
        batch = batch_of([(9, 8), (7, 5)])
        with saved_bytes() as sizes:
            model.states(batch.src, batch.src_keep, batch.tgt_in)
        return sum(sizes)

    if stack == "reversible":
        assert kept(6) == kept(1)
    else:
        assert kept(6) > 4 * kept(1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "needs a residual form that only adds to its stream; use pre or .*sandwich"),
        ({"residual": "deepnorm"}, "needs a residual form that only adds"),
        ({"residual": "pre", "wiring": "mix"}, "use wiring last, or stack"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_what_would_work(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TransformerConfig(stack="reversible", **changes)


def test_the_kind_is_registered() -> None:
    assert isinstance(TransformerConfig(stack="reversible", residual="pre").stack, reversible.ReversibleConfig)
