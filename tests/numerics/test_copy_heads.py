"""The equations of copying against loops in float64."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.functional.copying.coverage import coverage, coverage_loss
from qkv.functional.copying.mixture import log_sums_by_token, pointer_generator
from qkv.functional.losses import no_smoothing, uniform
from qkv.models.heads.base import AttentionChoice, HeadContext
from qkv.models.heads.copying import CopyHead
from qkv.models.heads.copynet import CopyNet
from qkv.models.heads.pointer_generator import OwnPointerGenerator, PointerGenerator
from qkv.text import SPECIAL

VOCAB, WIDTH = 9, 4
SRC = [[5, 7, 5, VOCAB + 3, 3], [VOCAB, VOCAB, 6, 3, 0]]
"""With a repeated token, unknown ones (one of them repeated), END and padding."""


def head_of(kind: str) -> CopyHead:
    torch.manual_seed(1)
    weight = nn.Parameter(torch.randn(VOCAB, WIDTH).double())
    made = {"cross": lambda: PointerGenerator(weight, AttentionChoice()), "own": lambda: OwnPointerGenerator(weight)}
    return (made[kind]() if kind in made else CopyNet(weight)).double()


def inputs(kind: str, head: CopyHead) -> tuple[Tensor, HeadContext, Tensor]:
    torch.manual_seed(2)
    states, memory = torch.randn(2, 3, WIDTH).double(), torch.randn(2, 5, WIDTH).double()
    src = torch.tensor(SRC)
    logits = torch.randn(2, 3, 5).double().masked_fill((src == SPECIAL.pad)[:, None], -torch.inf)
    attention = logits.softmax(-1) if kind == "cross" else None
    pointed = head.point(states, head.keys(memory)) if head.needs_memory else None
    return states, HeadContext(src[:, None].expand(-1, 3, -1), attention, pointed), memory


def softmax(values: list[float]) -> list[float]:
    largest = max(values)
    powers = [math.exp(value - largest) for value in values]
    return [power / sum(powers) for power in powers]


def dot(one: Tensor, two: Tensor) -> float:
    return sum(a * b for a, b in zip(one.tolist(), two.tolist(), strict=True))


def by_loops(kind: str, head: Any, state: Tensor, src: list[int], memory: Tensor, attention: Tensor) -> list[float]:
    """p of each of the V + S ids."""
    found = [0.0] * (VOCAB + len(src))
    real = [place for place, token in enumerate(src) if token != SPECIAL.pad]
    generated = [dot(row, state) for row in head.weight]
    if kind == "copynet":
        copied = [dot(torch.tanh(head.key.weight @ memory[place]), state) for place in real]
        probabilities = softmax(generated + copied)
        for token in range(VOCAB):
            found[token] += probabilities[token]
        for place, probability in zip(real, probabilities[VOCAB:], strict=True):
            found[src[place]] += probability
        return found
    gate = 1 / (1 + math.exp(-dot(head.gate.weight[0], state) - float(head.gate.bias)))
    if kind == "own":
        query = head.query.weight @ state + head.query.bias
        weights = softmax([dot(query, head.key.weight @ memory[place]) / math.sqrt(WIDTH) for place in real])
    else:
        weights = [float(attention[place]) for place in real]
    for token, probability in enumerate(softmax(generated)):
        found[token] += gate * probability
    for place, weight in zip(real, weights, strict=True):
        found[src[place]] += (1 - gate) * weight
    return found


@pytest.mark.parametrize("kind", ["cross", "own", "copynet"])
@torch.no_grad()
def test_a_copy_head_is_its_equation(kind: str) -> None:
    head = head_of(kind)
    states, context, memory = inputs(kind, head)
    found, sources = head.log_probs(states, context), head.copy_log_probs(states, context)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(2, 3).double(), atol=1e-12, rtol=0)
    for row in range(2):
        for place in range(3):
            attention = context.attention[row, place] if context.attention is not None else memory
            wanted = by_loops(kind, head, states[row, place], SRC[row], memory[row], attention)
            assert found[row, place].exp().tolist() == pytest.approx(wanted, abs=1e-12)
            # A token beyond the vocabulary can only be copied: its probability is that of the positions that hold it.
            for token in {token for token in SRC[row] if token >= VOCAB}:
                copied = sum(math.exp(sources[row, place, s]) for s, held in enumerate(SRC[row]) if held == token)
                assert wanted[token] == pytest.approx(copied, abs=1e-12)


@pytest.mark.parametrize("kind", ["cross", "own", "copynet"])
def test_the_loss_is_smoothed_over_the_vocabulary_and_has_the_right_gradient(kind: str) -> None:
    head = head_of(kind)
    states, context, _ = inputs(kind, head)
    targets, weights = torch.tensor([5, VOCAB + 3, 8, VOCAB, 6, 3]), torch.tensor([1.0, 2, 1, 1, 0.5, 1]).double()
    smoothing = uniform(VOCAB, 0.2)
    flat = HeadContext(*(None if part is None else part.detach().flatten(0, 1) for part in context))

    def loss(flat_states: Tensor, part: Tensor) -> Tensor:
        own = flat._replace(attention=part.softmax(-1)) if kind == "cross" else flat._replace(pointed=part)
        return head.loss(flat_states, own, targets, weights, smoothing)[0]

    rows, part = states.flatten(0, 1).requires_grad_(), torch.randn(6, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(loss, (rows, part))
    own = flat._replace(attention=part.softmax(-1)) if kind == "cross" else flat._replace(pointed=part)
    log_probs = head.log_probs(rows, own)
    wanted = sum(
        -w * (0.8 * log_probs[n, y] + 0.2 / VOCAB * log_probs[n, :VOCAB].sum())
        for n, (y, w) in enumerate(zip(targets.tolist(), weights.tolist(), strict=True))
    )
    torch.testing.assert_close(loss(rows, part), wanted)


@pytest.mark.parametrize("kind", ["cross", "own", "copynet"])
def test_without_smoothing_the_loss_is_that_of_all_columns(kind: str) -> None:
    """In value and gradient; targets are generated, copied, both, or beyond the vocabulary."""
    head = head_of(kind)
    states, context, _ = inputs(kind, head)
    targets, weights = torch.tensor([5, VOCAB + 3, 8, VOCAB, 6, 3]), torch.tensor([1.0, 2, 1, 1, 0.5, 1]).double()
    flat = HeadContext(*(None if part is None else part.detach().flatten(0, 1) for part in context))
    rows, part = states.flatten(0, 1).requires_grad_(), torch.randn(6, 5).double().requires_grad_()
    assert flat.src is not None
    real = part.masked_fill(flat.src == SPECIAL.pad, -torch.inf)
    flat = flat._replace(attention=real.softmax(-1)) if kind == "cross" else flat._replace(pointed=part)
    leaves = [rows, part, *head.parameters()]
    loss, nll = head.loss(rows, flat, targets, weights, no_smoothing(VOCAB))
    wanted = -(head.log_probs(rows, flat).gather(1, targets[:, None])[:, 0] * weights).sum()
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-12)
    assert float(nll) == loss.item()
    for ours, theirs in zip(
        *(torch.autograd.grad(out, leaves, retain_graph=True, allow_unused=True) for out in (loss, wanted)), strict=True
    ):
        zero = torch.zeros(())
        torch.testing.assert_close(*(zero if g is None else g for g in (ours, theirs)), rtol=0, atol=1e-12)


def test_sums_by_token_do_not_underflow() -> None:
    """exp(-2000) is 0 in every format; its logarithm is not lost."""
    scores, src = torch.tensor([[-2000.0, -2001.0, 0.0]]), torch.tensor([[6, 6, 7]])
    found = log_sums_by_token(scores, src, torch.ones_like(src, dtype=torch.bool), 9)
    assert found[0, 6].item() == pytest.approx(-2000 + math.log1p(math.exp(-1)))
    assert (found[0, 7].item(), found[0, 8].item()) == (0.0, -math.inf)
    gate = torch.full((1, 1), 200.0)
    mixed = pointer_generator(torch.tensor([[0.0] * 6 + [-500.0, 0.0]]), found, gate)
    assert bool(mixed[0, :8].isfinite().all())


def test_an_open_and_a_shut_gate() -> None:
    """p_gen = 1 is the plain model; p_gen = 0 has mass on source tokens only."""
    torch.manual_seed(0)
    generated, src = torch.randn(4, VOCAB).double(), torch.tensor(SRC[0]).expand(4, -1)
    copied = log_sums_by_token(torch.randn(4, 5).double().log_softmax(-1), src, src > 0, VOCAB + 5)
    plain = pointer_generator(generated, copied, torch.full((4, 1), 1e4).double())
    torch.testing.assert_close(plain[:, :VOCAB], generated.log_softmax(-1))
    copies = pointer_generator(generated, copied, torch.full((4, 1), -1e4).double()).exp()
    torch.testing.assert_close(copies, copied.exp())


def test_coverage_by_loops() -> None:
    torch.manual_seed(0)
    attention = torch.randn(2, 5, 4).double().softmax(-1)
    found, costs = coverage(attention), coverage_loss(attention)
    for row in range(2):
        for step in range(5):
            before = [sum(float(attention[row, t, s]) for t in range(step)) for s in range(4)]
            assert found[row, step].tolist() == pytest.approx(before)
            wanted = sum(min(float(attention[row, step, s]), before[s]) for s in range(4))
            assert costs[row, step].item() == pytest.approx(wanted)
    assert bool((costs[:, 0] == 0).all())
    assert bool(((costs >= 0) & (costs <= 1)).all())
    permutation = torch.eye(4).double()[torch.tensor([2, 0, 3, 1])][None]
    assert coverage_loss(permutation).tolist() == [[0.0] * 4]
