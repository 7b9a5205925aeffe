"""What a model gives for inference keeps its weights when training goes on, for every kind of part."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.layers.attention.recording import capture_attention
from qkv.models.base import Model
from qkv.models.recurrent.config import RecurrentConfig, build_recurrent
from qkv.search.models import ModelSteps
from qkv.search.speculative.blocks import ModelBlocks
from qkv.text import SPECIAL
from tests.support.parts import PARTS
from tests.support.small import VOCAB, batch_of, small_model


def recurrent() -> Model:
    return build_recurrent(RecurrentConfig(d_model=8, dropout=0.5), VOCAB, VOCAB, SPECIAL.pad, "target")


def by_steps(model: Model, attention: bool = False) -> Callable[[Batch], Tensor]:
    steps = ModelSteps(model, attention)

    def decode(batch: Batch) -> Tensor:
        state, said = steps.start(batch.src, batch.src_keep), []
        for tokens in batch.tgt_in.unbind(1):
            output, state = steps.step(tokens, state)
            said.append(output.log_probs)
        return torch.stack(said)

    return decode


def by_blocks(model: Model) -> Callable[[Batch], Tensor]:
    blocks = ModelBlocks(model)
    return lambda batch: blocks.extend(batch.tgt_in, blocks.start(batch.src, batch.src_keep)[1])[0].log_probs


def train(model: Model, batch: Batch) -> None:
    """One update that moves every weight."""
    model(batch).states.square().sum().backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))


CASES: list[Any] = [pytest.param(lambda parts=parts: small_model(**parts), id=str(parts)) for parts in PARTS]


@pytest.mark.parametrize("build", [*CASES, pytest.param(recurrent, id="recurrent")])
def test_steps_and_blocks_keep_their_weights(build: Callable[[], Model]) -> None:
    """Also those of the output head; and a model in training gives something without dropout."""
    batch = batch_of([(5, 4), (3, 6)])
    for make in (by_steps, by_blocks):
        model = build().train()
        if make is by_blocks and model.inference().blocks is None:
            continue
        decode = make(model)
        before = decode(batch)
        train(model, batch)
        assert torch.equal(decode(batch), before)
        assert not torch.equal(make(model)(batch), before)
        assert model.training


def test_a_copy_has_no_gradients_and_is_recorded_as_the_model_is() -> None:
    model, batch = small_model().train(), batch_of([(5, 4), (3, 6)])
    train(model, batch)
    steps = ModelSteps(model)
    assert all(weight.grad is None and not weight.requires_grad for weight in steps.head.parameters())
    with capture_attention(model) as record:
        steps.step(batch.tgt_in[:, 0], steps.start(batch.src, batch.src_keep))
    assert any("cross_attention" in name for name in record)
