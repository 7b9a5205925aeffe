"""Universal Transformer and adaptive depth: the equations, the walk of a stack, the cost, and one token at a time."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.halting import halting_weights
from qkv.functional.positions import sinusoidal
from qkv.inference.transformer import TransformerInference
from qkv.layers.attention.context import AttentionContext
from qkv.layers.positions import Positions
from qkv.models.decoders.ctc import CtcConfig
from qkv.models.transformer.channels import Halting, auxiliary_losses, haltings
from qkv.models.transformer.model import Transformer
from qkv.models.transformer.stacks.adaptive import Adaptive
from qkv.models.transformer.stacks.base import Layers
from qkv.objectives.build import build_objective
from qkv.objectives.smoothing import NoSmoothing
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, decode, small_model

WIDTH, MOST, PONDER = 4, 5, 0.3


class Toy(Layers):
    """A layer for every depth that is a function of the whole state [B, T, D]; counts how often it is called."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, number: int, x: Tensor) -> Tensor:
        assert number == self.calls
        self.calls += 1
        return self.function(x)


def adaptive(bias: float, weight: float = 0.0, most: int = MOST) -> Adaptive:
    torch.manual_seed(0)
    depth = Adaptive(most, WIDTH, Positions(), ponder=PONDER, start_bias=bias).double()
    with torch.no_grad():
        depth.halt.weight.mul_(weight)
    return depth


def view_of(keep: Tensor) -> AttentionContext:
    pos = torch.arange(keep.shape[1])
    return AttentionContext(pos, pos, keep=keep)


def states(rows: int = 3, length: int = 6) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(rows, length, WIDTH, dtype=torch.float64)


def test_halting_weights_by_a_loop() -> None:
    torch.manual_seed(3)
    probabilities = torch.rand(200, MOST, dtype=torch.float64) ** 2
    found = halting_weights(probabilities, 0.01)
    for row, weights, steps, remainder in zip(probabilities.tolist(), *(part.tolist() for part in found), strict=True):
        spent, wanted = 0.0, []
        for number, probability in enumerate(row, 1):
            if spent + probability > 0.99 or number == MOST:
                wanted.append(1 - spent)
                break
            wanted.append(probability)
            spent += probability
        assert steps == len(wanted)
        assert remainder == pytest.approx(wanted[-1], abs=1e-12)
        assert weights == pytest.approx(wanted + [0.0] * (MOST - len(wanted)), abs=1e-12)
        assert math.fsum(weights) == pytest.approx(1.0, abs=1e-12)
    assert len(set(found.steps.tolist())) == MOST


def test_the_walk_is_the_definition_where_positions_do_not_meet() -> None:
    """The layer works on each position alone, so its states are known without halting."""
    depth, x = adaptive(bias=-1.0, weight=3.0), states()
    layer = torch.nn.Linear(WIDTH, WIDTH).double()
    with haltings.listen() as heard:
        result = depth(x, Toy(layer), view_of(torch.ones(3, 6, dtype=torch.bool)))
    signal = sinusoidal(torch.arange(1, MOST + 1), WIDTH).double()
    after = []
    h = x
    for number in range(MOST):
        h = layer(h + signal[number])
        after.append(h)
    probabilities = torch.stack([torch.sigmoid(depth.halt(h)).squeeze(-1) for h in after], dim=-1)
    weights, steps, remainder = halting_weights(probabilities, depth.epsilon)
    torch.testing.assert_close(result, torch.einsum("btn,nbtd->btd", weights, torch.stack(after)))
    assert torch.equal(heard[0].steps, steps)
    torch.testing.assert_close(heard[0].remainder, remainder)
    assert len(steps.unique()) >= 3


def test_who_has_halted_keeps_its_state_and_stays_visible() -> None:
    """Two positions that see each other: the first halts after one step, the second goes on and reads it."""
    depth = adaptive(bias=0.0, most=3)
    with torch.no_grad():
        depth.halt.weight.copy_(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
        depth.step_signal.zero_()
    # The sum of both: channel 0 decides about halting and is not mixed.
    x = torch.tensor([[[99.0, 1.0, 0.0, 0.0], [-99.0, 10.0, 0.0, 0.0]]], dtype=torch.float64)

    def meet(h: Tensor) -> Tensor:
        return torch.cat([x[..., :1], h.sum(dim=1, keepdim=True).expand_as(h)[..., 1:]], dim=-1)

    with haltings.listen() as heard:
        result = depth(x, Toy(meet), view_of(torch.ones(1, 2, dtype=torch.bool)))
    # Step 1: both 11. The first stops there; then 11 + 11 = 22, and 11 + 22 = 33.
    assert heard[0].steps.tolist() == [[1, 3]]
    torch.testing.assert_close(result[0, :, 1], torch.tensor([11.0, 33.0]).double())


def test_a_sure_position_takes_one_step_and_an_unsure_one_all_with_weights_that_sum_to_1() -> None:
    keep = torch.ones(3, 6, dtype=torch.bool)
    one, all_steps = Toy(torch.tanh), Toy(torch.ones_like)
    torch.testing.assert_close(
        adaptive(bias=60.0)(states(), one, view_of(keep)), torch.tanh(states() + adaptive(0.0).step_signal[0])
    )
    assert one.calls == 1
    for bias in (-60.0, -2.0):
        all_steps.calls = 0
        result = adaptive(bias)(states(), all_steps, view_of(keep))
        torch.testing.assert_close(result, torch.ones_like(result))
        assert all_steps.calls == MOST


def test_the_cost_and_its_gradient() -> None:
    """N + R of real positions only; b moves it through R = 1 - p_1 - ... - p_{N-1} alone."""
    depth, keep = adaptive(bias=-1.0), torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    with auxiliary_losses.listen() as costs:
        depth(states(2), Toy(torch.tanh), view_of(keep))
    p = torch.sigmoid(torch.tensor(-1.0, dtype=torch.float64))
    steps = 4  # 4 p > 0.99
    torch.testing.assert_close(costs[0], PONDER * (steps + 1 - 3 * p).expand(2))
    (gradient,) = torch.autograd.grad(costs[0][1], depth.halt.bias)
    torch.testing.assert_close(gradient, (-PONDER * 3 * p * (1 - p)).view(1))
    with auxiliary_losses.listen() as costs:
        adaptive(bias=60.0)(states(2), Toy(torch.tanh), view_of(keep))
    assert costs[0].tolist() == [PONDER * 2] * 2


def test_padding_never_prolongs_the_walk() -> None:
    depth, x = adaptive(bias=-1.0, weight=3.0), states()
    layer = torch.nn.Linear(WIDTH, WIDTH).double()
    with haltings.listen() as heard:
        depth(x, Toy(layer), view_of(torch.ones(3, 6, dtype=torch.bool)))
    steps = heard[0].steps
    keep = steps < steps.max()
    short = Toy(layer)
    with haltings.listen() as heard:
        depth(x, short, view_of(keep))
    assert short.calls == int(steps[keep].max()) < int(steps.max())
    assert torch.equal(heard[0].steps, steps * keep)


def universal(**changes: Any) -> Transformer:
    return small_model(2, **{"encoder_layers": 3, "decoder_layers": 4, "stack": "universal", **changes}).double().eval()


def test_a_fixed_depth_is_the_tied_transformer_plus_the_step_signal() -> None:
    """Without positions and with the signal silenced, exactly; with both, step by step."""
    model, batch = universal(positions="none"), batch_of([(5, 4), (2, 6)])
    tied = universal(positions="none", stack="layers", share_layers=True)
    tied.load_state_dict(model.state_dict())
    depths: list[Any] = [model.encoder.depth, model.decoder.depth]
    plain = decode(tied, batch.src, batch.src_keep, batch.tgt_in)
    assert not torch.allclose(decode(model, batch.src, batch.src_keep, batch.tgt_in), plain, atol=1e-3)
    for depth in depths:
        depth.step_signal.zero_()
    assert torch.equal(decode(model, batch.src, batch.src_keep, batch.tgt_in), plain)


def test_each_step_is_told_its_position_and_its_number() -> None:
    model = universal()
    pos, x = torch.arange(3), torch.randn(1, 3, 16, dtype=torch.float64)
    context = AttentionContext(pos, pos)
    steps, places = (sinusoidal(torch.arange(start, start + 3), 16, torch.float64) for start in (1, 0))
    layer: Any = model.encoder.layers[0]
    h = layer(x + steps[0].float(), context)
    for number in (1, 2):
        h = layer(h + places + steps[number].float(), context)
    torch.testing.assert_close(model.encoder(x, context), h, atol=1e-10, rtol=0)


def pondering(**changes: Any) -> Transformer:
    """An adaptive model whose halting units are tuned so that positions really differ in depth."""
    stack = {"kind": "adaptive", "ponder": 0.2, "start_bias": -30.0}
    model = small_model(6, stack=stack, encoder_layers=4, decoder_layers=5, **changes).double().eval()
    for depth in (model.encoder.depth, model.decoder.depth):
        unit: Any = depth
        logits: list[Tensor] = []
        hook = unit.halt.register_forward_hook(lambda _, inputs, output, seen=logits: seen.append(output))
        batch = sentences()
        decode(model, batch.src, batch.src_keep, batch.tgt_in)
        hook.remove()
        scale = 1.5 / torch.stack(logits).std()
        with torch.no_grad():
            unit.halt.bias.sub_(torch.stack(logits).median()).mul_(scale).sub_(1.0)
            unit.halt.weight.mul_(scale)
    return model


def sentences() -> Batch:
    return batch_of([(7, 9), (3, 4), (5, 9)])


def depths_of(model: Transformer, batch: Batch) -> list[Halting]:
    with haltings.listen() as heard:
        decode(model, batch.src, batch.src_keep, batch.tgt_in)
    return heard


@pytest.mark.parametrize("residual", ["post", "pre", "sandwich"])
def test_one_token_at_a_time_halts_where_the_parallel_pass_does(residual: str) -> None:
    model, batch = pondering(residual=residual), sentences()
    fast = TransformerInference(model, attention=True)
    encoder, decoder = depths_of(model, batch)
    with torch.no_grad(), haltings.listen() as heard:
        state, weights = fast.start(batch.src, batch.src_keep), []
        for tokens in batch.tgt_in.unbind(1):
            output, state = fast.extend(tokens[:, None], state)
            assert output.context.attention is not None
            weights.append(output.context.attention)
    assert torch.equal(heard[0].steps, encoder.steps)
    real = batch.tgt_in != SPECIAL.pad
    stepwise = torch.cat([halting.steps for halting in heard[1:]], dim=1)
    assert torch.equal(stepwise * real, decoder.steps)
    assert len(decoder.steps[real].unique()) >= 3
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(3, 1).double())


@pytest.mark.parametrize("residual", ["post", "pre"])
def test_cached_equals_full_at_different_depths(residual: str) -> None:
    model, batch = pondering(residual=residual), sentences()
    fast, real = TransformerInference(model), batch.tgt_in != SPECIAL.pad
    full = decode(model, batch.src, batch.src_keep, batch.tgt_in)
    with torch.no_grad():
        state = fast.start(batch.src, batch.src_keep)
        for place, tokens in enumerate(batch.tgt_in.unbind(1)):
            found, state = fast.extend(tokens[:, None], state)
            rows = real[:, place]
            torch.testing.assert_close(found.states[rows, 0], full[rows, place], atol=1e-8, rtol=0)


def test_batch_and_padding_change_nothing() -> None:
    model, batch = pondering(), sentences()
    whole = decode(model, batch.src, batch.src_keep, batch.tgt_in)
    alone = decode(model, batch.src[1:2, :4], batch.src_keep[1:2, :4], batch.tgt_in[1:2, :5])
    torch.testing.assert_close(alone, whole[1:2, :5], atol=1e-10, rtol=0)


def test_the_objective_adds_the_cost_for_each_target_token() -> None:
    model, batch = pondering(), sentences()
    teacher = ObjectiveConfig(smoothing=NoSmoothing()).build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    report = teacher.training_loss(model, batch, 1)
    tokens, cost = batch.tgt_weight.sum(dim=1).double(), torch.zeros(3).double()
    for halting, keep in zip(depths_of(model, batch), (batch.src_keep, batch.tgt_weight > 0), strict=True):
        cost += 0.2 * (halting.steps + halting.remainder).sum(dim=1) / keep.sum(dim=1)
    torch.testing.assert_close(report.sum, float(report.nll) + cost @ tokens)
    assert float(cost.min()) > 0.4
    halves = [teacher.training_loss(model, half, 1).sum for half in batch.split()]
    torch.testing.assert_close(halves[0] + halves[1], report.sum)
    assert teacher.validation_loss(model, batch).sum.item() == pytest.approx(float(report.nll))


def test_two_passes_at_once_cost_their_mean() -> None:
    model, batch = pondering(), sentences()
    objective = ObjectiveConfig(smoothing=NoSmoothing(), consistency={"kind": "rdrop", "weight": 0.0})
    teacher = objective.build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    single = ObjectiveConfig(smoothing=NoSmoothing()).build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    twice, once = teacher.training_loss(model, batch, 1), single.training_loss(model, batch, 1)
    torch.testing.assert_close(twice.sum - twice.nll, once.sum - once.nll)


def test_a_pass_that_only_looks_costs_nothing() -> None:
    """Glancing fills the canvas once without gradients; the encoder and the second pass count."""
    model, batch = pondering(decoder={"kind": "ctc", "upsample": 3}), sentences()
    config = ObjectiveConfig(smoothing=NoSmoothing(), glancing={})
    objective = build_objective(config, CtcConfig(upsample=3), VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    with haltings.listen() as heard:
        report = objective.training_loss(model, batch, 1)
    encoder, _, second = heard
    tokens = batch.tgt_weight.sum(dim=1).double()
    first_mean, second_mean = (
        (each.steps + each.remainder).sum(1) / (each.steps > 0).sum(1) for each in (encoder, second)
    )
    assert float(report.sum.detach()) - report.nll == pytest.approx(0.2 * float((first_mean + second_mean) @ tokens))
