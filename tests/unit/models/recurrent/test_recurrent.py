"""What is the recurrent model's own; tests/kinds tries what all models have in common."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.layers.attention.recording import capture_attention, name_attentions
from qkv.models.recurrent.config import RecurrentConfig, build_recurrent
from qkv.models.recurrent.model import RecurrentModel
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.protocol import StepFunction
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, stir


def recurrent(layers: int = 2, attention: str | dict[str, Any] = "additive") -> RecurrentModel:
    torch.manual_seed(0)
    config = RecurrentConfig(d_model=8, encoder_layers=layers, decoder_layers=layers, dropout=0.0, attention=attention)
    model = build_recurrent(config, VOCAB, VOCAB, SPECIAL.pad, "target").double().eval()
    stir(model)
    name_attentions(model)
    return model


def test_attention_is_recorded_and_given_to_whoever_asks() -> None:
    model, batch = recurrent(), batch_of([(4, 3), (1, 5)])
    with torch.no_grad(), capture_attention(model) as record:
        steps = model.inference().require_steps(attention=True)
        attention = steps.extend(batch.tgt_in, steps.start(batch.src, batch.src_keep))[0].context.attention
    assert attention is not None
    assert model(batch).context.attention is None
    assert torch.equal(record["attention"][:, 0], attention)
    torch.testing.assert_close(attention.sum(-1), torch.ones(2, 6).double())
    assert bool((attention[1, :, 2:] == 0).all())


def test_each_direction_has_half_of_the_width() -> None:
    with pytest.raises(ValueError, match="must be even"):
        RecurrentConfig(d_model=7)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"attention": "none", "attend": "after"}, "but attention is none"),
        ({"attention": "none", "input_feeding": True}, "but attention is none"),
        ({"input_feeding": True}, "input_feeding goes with attend: after"),
        ({"encoder": "lstmn", "cell": "gru"}, "encoder lstmn is made of LSTM cells, not gru"),
        ({"attention": "none", "head": "pointer_generator"}, "attention cross copies by a cross-attention that this"),
    ],
)
def test_parts_that_do_not_go_together(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RecurrentConfig(d_model=8, **keys)


def test_a_direction_by_itself_may_have_any_width() -> None:
    assert RecurrentConfig(d_model=7, encoder="unidirectional").d_model == 7


def test_without_attention_there_is_none_to_train_or_to_show() -> None:
    config = RecurrentConfig(d_model=8, attention="none")
    assert config.cross_attention_size is None
    model = build_recurrent(config, VOCAB, VOCAB, SPECIAL.pad, "target")
    with pytest.raises(UsageError, match="attention none has no cross-attention"), model.watch_cross_attention():
        pass


def test_a_head_that_points_for_itself_needs_no_attention() -> None:
    config = RecurrentConfig(d_model=8, attention="none", head={"kind": "pointer_generator", "attention": "own"})
    model, batch = build_recurrent(config, VOCAB, VOCAB, SPECIAL.pad, "all").eval(), batch_of([(4, 3), (1, 5)])
    states, context = model(batch)
    assert model.head.log_probs(states, context).shape[:2] == states.shape[:2]


def test_a_state_shares_its_sources_until_a_sentence_leaves() -> None:
    model, batch = recurrent(), batch_of([(4, 3), (1, 5)])
    state = model.start(batch.src, batch.src_keep, beams=2)
    assert state.reorder(torch.tensor([1, 0, 3, 3]), torch.tensor([0, 1])).source is state.source
    left = state.reorder(torch.tensor([3, 2]), torch.tensor([1])).source
    assert torch.equal(left.memory, state.source.memory[1:])


CARRYING: list[dict[str, Any]] = [
    {"kind": "location_aware", "filters": 3, "width": 3},
    {"kind": "location_aware", "filters": 3, "width": 3, "window": 2},
    {"kind": "coverage"},
]


@pytest.mark.parametrize("attention", CARRYING, ids=str)
def test_beams_that_change_places_take_along_where_they_attended(attention: dict[str, Any]) -> None:
    model = recurrent(attention=attention)
    batch = batch_of([(4, 3), (1, 5), (6, 2)])
    steps: list[StepFunction] = [ModelSteps(model), PrefixSteps(model)]
    found = []
    for each in steps:
        state, said = each.start(batch.src, batch.src_keep, 2), list[Tensor]()
        for rows, sentences in (([1, 0, 3, 3, 5, 4], [0, 1, 2]), ([4, 5, 0, 1], [2, 0]), ([3, 2], [1])):
            output, state = each.step(torch.arange(len(said[-1]) if said else 6) + 5, state)
            state = state.reorder(torch.tensor(rows), torch.tensor(sentences))
            said.append(output.log_probs[torch.tensor(rows)])
        found.append(said)
    for cached, full in zip(*found, strict=True):
        torch.testing.assert_close(cached, full, atol=1e-12, rtol=0)
