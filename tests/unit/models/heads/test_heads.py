"""Output heads: the fused losses against their definition, and a head of one's own that copies from the source."""

from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.losses import r_drop, uniform
from qkv.models.base import Model, Output
from qkv.models.heads.base import NO_CONTEXT, Head, HeadConfig, HeadContext, heads
from qkv.models.heads.linear import LinearHead
from qkv.models.recurrent.config import RecurrentConfig, build_recurrent
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.base import LengthLimits, SearchTask
from qkv.search.beam import BeamSearch
from qkv.search.greedy import GreedySearch
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.scoring import picked_log_probs
from qkv.search.speculative.blocks import ModelBlocks
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, small_model, stir


class CopyHead(Head):
    """p = g softmax(W h) + (1 - g) Σ_j a_j [x_j = y], g = sigmoid(w·h + b): a pointer-generator (See et al. 2017)."""

    needs_source = True
    needs_attention = True

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight
        self.gate = nn.Linear(weight.shape[1], 1)

    def scores(self, states: Tensor, context: HeadContext = NO_CONTEXT) -> Tensor:
        assert context.src is not None
        assert context.attention is not None
        generated = torch.softmax(F.linear(states, self.weight), dim=-1)
        copied = torch.zeros_like(generated).scatter_add(-1, context.src, context.attention)
        gate = torch.sigmoid(self.gate(states))
        return (gate * generated + (1 - gate) * copied).log()


class CopyConfig(HeadConfig):
    kind: Literal["test_copy"] = "test_copy"

    def build(self, embedding: nn.Parameter) -> CopyHead:
        return CopyHead(embedding)


if "test_copy" not in heads.names():
    heads.register(CopyConfig)


def with_copies(kind: str, **changes: Any) -> Model:
    if kind == "transformer":
        return small_model(head="test_copy", **changes).double()
    torch.manual_seed(0)
    config = RecurrentConfig(d_model=16, dropout=0.0, head={"kind": "test_copy"})
    model = build_recurrent(config, VOCAB, VOCAB, SPECIAL.pad, "target").double()
    stir(model)
    return model


@pytest.fixture(params=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest) -> Model:
    return with_copies(request.param)


def test_the_fused_losses_are_the_definition() -> None:
    torch.manual_seed(0)
    head = LinearHead(nn.Parameter(torch.randn(VOCAB, 16).double()))
    targets, weights, smoothing = torch.randint(VOCAB, (7,)), torch.rand(7).double(), uniform(VOCAB, 0.1)
    states = torch.randn(7, 16).double()
    for one, two in zip(
        head.loss(states, NO_CONTEXT, targets, weights, smoothing),
        Head.loss(head, states, NO_CONTEXT, targets, weights, smoothing),
        strict=True,
    ):
        torch.testing.assert_close(one, two)
    pairs, factors = torch.randn(7, 2, 16).double(), r_drop(3.0)
    for one, two in zip(
        head.consistent_loss(pairs, NO_CONTEXT, targets, weights, smoothing, factors),
        Head.consistent_loss(head, pairs, NO_CONTEXT, targets, weights, smoothing, factors),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("consistency", [None, "rdrop"])
def test_a_head_that_copies_learns(model: Model, consistency: str | None) -> None:
    """Every part gets a gradient, through the weights of attention too, and a few updates lower the loss."""
    config = ObjectiveConfig.model_validate({"smoothing": "none", "consistency": consistency})
    objective = config.build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    batch = batch_of([(5, 4), (3, 6)])
    batch.tgt_out[0, :4] = batch.src[0, :4]
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2), []
    for update in range(1, 9):
        optimizer.zero_grad()
        report = objective.training_loss(model, batch, update)
        report.sum.backward()
        assert all(p.grad is not None and bool(p.grad.any()) for p in model.head.parameters())
        optimizer.step()
        losses.append(float(report.sum.detach()))
    assert losses[-1] < 0.7 * losses[0]


def test_every_step_of_every_search_gives_the_head_its_context(model: Model) -> None:
    batch = batch_of([(4, 3), (1, 5), (6, 2)])
    model.eval()
    task = SearchTask(batch.src, batch.src_keep, SPECIAL, [LengthLimits(9)] * 3)
    for search in (GreedySearch(), BeamSearch(size=3)):
        found, wanted = (search.run(steps(model), task) for steps in (ModelSteps, PrefixSteps))
        for own, other in zip(found, wanted, strict=True):
            assert [each.tokens for each in own] == [each.tokens for each in other]
            assert [each.score for each in own] == pytest.approx([each.score for each in other])


def test_scores_and_forced_tokens_are_those_of_one_parallel_pass(model: Model) -> None:
    batch = batch_of([(4, 5), (2, 5)])
    model.eval()
    with torch.no_grad():
        output = model(batch)
    every = torch.ones_like(batch.tgt_out, dtype=torch.bool)
    flat = Output(output.states[every], output.context.at(every))
    wanted = picked_log_probs(model, flat, batch.tgt_out[every]).view(2, -1)
    steps = ModelSteps(model)
    tokens = torch.cat([batch.tgt_in, batch.tgt_out[:, -1:]], dim=1)
    forced, _ = steps.force(tokens, steps.start(batch.src, batch.src_keep, 2), 2)
    torch.testing.assert_close(forced.log_probs, wanted, atol=1e-10, rtol=0)


def test_blocks_give_the_head_its_context() -> None:
    model, batch = with_copies("transformer").eval(), batch_of([(4, 5), (2, 5)])
    blocks, steps = ModelBlocks(model), ModelSteps(model)
    output, _ = blocks.extend(batch.tgt_in, blocks.start(batch.src, batch.src_keep)[1])
    state = steps.start(batch.src, batch.src_keep)
    for place, tokens in enumerate(batch.tgt_in.unbind(1)):
        said, state = steps.step(tokens, state)
        torch.testing.assert_close(output.log_probs[:, place], said.log_probs, atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    "changes", [{"decoder": "ctc"}, {"draft": "blockwise"}, {"stack": "reversible", "residual": "pre"}]
)
def test_what_a_head_of_another_kind_does_not_go_with(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="head"):
        small_model(head="test_copy", **changes)
