"""Losses on attention weights: against loops in float64, and what the equations promise."""

import math

import pytest
import torch
from torch import Tensor

from qkv.functional.alignment import (
    alignment_cross_entropy,
    diagonal_likelihood,
    guided_attention,
    guided_penalty,
)

LENGTHS = [(4, 6), (5, 2), (1, 1)]
"""(target, source) of each sentence."""
T, S, H = 5, 6, 3


def masks() -> tuple[Tensor, Tensor]:
    tgt, src = torch.tensor(LENGTHS).unbind(1)
    return torch.arange(T) < tgt[:, None], torch.arange(S) < src[:, None]


def some_weights(seed: int = 0) -> Tensor:
    """Rows sum to one over the real keys; padding has none."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(len(LENGTHS), H, T, S, dtype=torch.float64, generator=generator)
    return scores.masked_fill(~masks()[1][:, None, None], -torch.inf).softmax(dim=-1)


def some_links() -> Tensor:
    """Rows of linked target tokens sum to one; every second token has no link."""
    tgt_keep, src_keep = masks()
    generator = torch.Generator().manual_seed(9)
    links = torch.rand(len(LENGTHS), T, S, dtype=torch.float64, generator=generator) * src_keep[:, None]
    links = links / links.sum(dim=-1, keepdim=True)
    return links * (tgt_keep & (torch.arange(T) % 2 == 0))[..., None]


@pytest.mark.parametrize("width", [0.1, 0.2, 0.7])
def test_guided_attention_is_the_mean_of_the_real_cells(width: float) -> None:
    weights = some_weights()
    wanted = []
    for row, (length_t, length_s) in enumerate(LENGTHS):
        total = 0.0
        for head in range(H):
            for t in range(length_t):
                for s in range(length_s):
                    apart = t / length_t - s / length_s
                    total += float(weights[row, head, t, s]) * (1 - math.exp(-(apart**2) / (2 * width**2)))
        wanted.append(total / (H * length_t * length_s))
    found = guided_attention(weights, *masks(), width)
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("width", [0.05, 0.2, 0.7])
def test_the_likelihood_of_the_diagonal_against_loops(width: float) -> None:
    weights = some_weights()
    wanted = []
    for row, (length_t, length_s) in enumerate(LENGTHS):
        total = 0.0
        for head in range(H):
            for t in range(length_t):
                near = [math.exp(-((t / length_t - s / length_s) ** 2) / (2 * width**2)) for s in range(length_s)]
                total -= math.log(sum(float(weights[row, head, t, s]) * near[s] for s in range(length_s)))
        wanted.append(total / (H * length_t))
    found = diagonal_likelihood(weights, *masks(), width)
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-5, rtol=1e-5)


def test_all_weight_on_the_diagonal_costs_nothing_and_none_there_is_no_infinity() -> None:
    keep = torch.ones(1, 4).bool()
    straight = torch.eye(4, dtype=torch.float64)[None, None]
    assert float(diagonal_likelihood(straight, keep, keep, 0.1)) == pytest.approx(0, abs=1e-12)
    assert diagonal_likelihood(straight.flip(-1), keep, keep, 0.01).isfinite().all()


def test_the_diagonal_is_free_and_half_the_length_away_costs_nearly_one() -> None:
    lengths = torch.tensor([10])
    penalty = guided_penalty(lengths, lengths, 10, 10, 0.2)[0]
    assert torch.equal(penalty.diagonal(), torch.zeros(10))
    assert float(penalty[0, 5]) == pytest.approx(1 - math.exp(-0.25 / 0.08)) == pytest.approx(0.956, abs=5e-4)


def test_the_penalty_of_a_transposed_pair_is_transposed() -> None:
    tgt, src = torch.tensor([4, 5]), torch.tensor([6, 2])
    torch.testing.assert_close(guided_penalty(tgt, src, 5, 6, 0.3), guided_penalty(src, tgt, 6, 5, 0.3).mT)


def test_padding_of_either_side_changes_nothing() -> None:
    weights, (tgt_keep, src_keep) = some_weights(), masks()
    stirred = weights + torch.randn_like(weights).abs() * ~(tgt_keep[:, None, :, None] & src_keep[:, None, None])
    torch.testing.assert_close(
        guided_attention(stirred, tgt_keep, src_keep, 0.2), guided_attention(weights, tgt_keep, src_keep, 0.2)
    )
    torch.testing.assert_close(
        diagonal_likelihood(stirred, tgt_keep, src_keep, 0.2), diagonal_likelihood(weights, tgt_keep, src_keep, 0.2)
    )
    together, links = alignment_cross_entropy(stirred, some_links(), tgt_keep), some_links()
    for row, (length_t, length_s) in enumerate(LENGTHS):
        here = slice(row, row + 1)
        alone = alignment_cross_entropy(
            weights[here, :, :length_t, :length_s], links[here, :length_t, :length_s], tgt_keep[here, :length_t]
        )
        torch.testing.assert_close(together[here], alone)


def test_the_cross_entropy_with_links_against_loops() -> None:
    weights, links = some_weights(), some_links()
    wanted = []
    for row, (length_t, length_s) in enumerate(LENGTHS):
        total = 0.0
        for head in range(H):
            for t in range(length_t):
                for s in range(length_s):
                    total -= float(links[row, t, s]) * math.log(float(weights[row, head, t, s]))
        wanted.append(total / (H * length_t))
    found = alignment_cross_entropy(weights, links, masks()[0])
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64))


def test_without_links_there_is_no_loss_and_a_weight_of_zero_is_no_infinity() -> None:
    weights = some_weights()
    assert torch.equal(alignment_cross_entropy(weights, torch.zeros_like(some_links()), masks()[0]), torch.zeros(3))
    assert alignment_cross_entropy(torch.zeros_like(weights), some_links(), masks()[0]).isfinite().all()


def test_gradients() -> None:
    scores = torch.randn(len(LENGTHS), H, T, S, dtype=torch.float64, requires_grad=True)
    masked = masks()
    assert torch.autograd.gradcheck(lambda x: guided_attention(x.softmax(dim=-1), *masked, 0.2), scores)
    assert torch.autograd.gradcheck(lambda x: diagonal_likelihood(x.softmax(dim=-1), *masked, 0.2), scores)
    links = some_links()
    assert torch.autograd.gradcheck(lambda x: alignment_cross_entropy(x.softmax(dim=-1), links, masked[0]), scores)
