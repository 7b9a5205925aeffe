"""Coverage as an input of attention, against loops; without it, it is additive attention."""

import math

import torch
from torch import Tensor

from qkv.functional.attention import additive_scores, masked_softmax
from qkv.functional.copying.coverage import coverage
from qkv.layers.attention import CoverageAttention
from qkv.layers.attention.context import AttentionContext
from qkv.layers.recurrent import AdditiveAttention, CoverageRecurrent
from tests.support.attentions import ragged


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def queries_and_keys() -> tuple[Tensor, Tensor]:
    return numbers(2, 4, 6, 4, seed=6), numbers(2, 4, 9, 4, seed=7)


def module(strength: float = 1.0) -> CoverageAttention:
    torch.manual_seed(0)
    attention = CoverageAttention(16, 4).double()
    with torch.no_grad():
        attention.coverage.copy_(strength * numbers(4, 4, seed=8))
    return attention


@torch.no_grad()
def by_loops(q: Tensor, k: Tensor, w: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """softmax over the real keys j of Σ_e v_e tanh(q_ie + k_je + w_e c_ij), c_i the sum of the weights before i."""
    weights = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for b, length in enumerate(lengths):
        for h in range(q.shape[1]):
            covered = [0.0] * length
            for i in range(q.shape[2]):
                scores = []
                for j in range(length):
                    terms = (q[b, h, i] + k[b, h, j] + w[h] * covered[j]).tolist()
                    scores.append(sum(math.tanh(term) * float(v[h, e]) for e, term in enumerate(terms)))
                total = sum(math.exp(score) for score in scores)
                for j in range(length):
                    weights[b, h, i, j] = math.exp(scores[j]) / total
                    covered[j] += float(weights[b, h, i, j])
    return weights


def test_it_equals_loops_and_padding_gets_nothing() -> None:
    attention, (q, k) = module(), queries_and_keys()
    context = AttentionContext(torch.arange(6), torch.arange(9), keep=ragged([9, 5]))
    wanted = by_loops(q, k, attention.coverage, attention.score, [9, 5])
    found = attention.weights(q, k, context)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 4, 6).double(), rtol=0, atol=1e-12)
    alone = attention.weights(q[1:], k[1:, :, :5], AttentionContext(torch.arange(6), torch.arange(5)))
    torch.testing.assert_close(found[1:, :, :, :5], alone, rtol=0, atol=1e-12)


def test_without_its_weight_it_is_additive_attention() -> None:
    attention, (q, k) = module(strength=0.0), queries_and_keys()
    context = AttentionContext(torch.arange(6), torch.arange(9), keep=ragged([9, 5]))
    wanted = masked_softmax(additive_scores(q, k, attention.score), ragged([9, 5])[:, None, None])
    torch.testing.assert_close(attention.weights(q, k, context), wanted, rtol=0, atol=1e-12)


def test_a_new_one_is_additive_attention() -> None:
    assert not CoverageAttention(16, 4).coverage.any()
    assert not CoverageRecurrent(16).coverage.any()


def test_what_is_carried_is_the_coverage_and_the_next_output_goes_on_from_it() -> None:
    attention, (q, k) = module(), queries_and_keys()
    context = AttentionContext(torch.arange(6), torch.arange(9))
    whole, carried = attention.follow(attention.first(q, k), q, k, context)
    covered = coverage(whole.flatten(0, 1)).view(whole.shape)
    torch.testing.assert_close(carried, covered + whole, rtol=0, atol=1e-12)
    later, _ = attention.follow(carried[:, :, 2], q[:, :, 3:], k, context)
    torch.testing.assert_close(later, whole[:, :, 3:], rtol=0, atol=1e-12)


def test_a_negative_weight_turns_attention_to_what_is_left() -> None:
    """Equal keys, and a coverage that lowers every score: each output attends to those that got least."""
    attention = module()
    with torch.no_grad():
        attention.coverage.fill_(-8.0)
        attention.score.fill_(1.0)
    q, k = torch.zeros(1, 4, 9, 4).double(), torch.zeros(1, 4, 3, 4).double()
    k[:, :, 0] = 0.1
    weights = attention.weights(q, k, AttentionContext(torch.arange(9), torch.arange(3)))
    covered = coverage(weights[0])
    assert bool((weights[0, :, 1, 0] < weights[0, :, 1, 1]).all())
    assert bool((covered[:, -1].amax(-1) - covered[:, -1].amin(-1) < 0.5).all())


def test_gradients_pass_through_the_scan() -> None:
    attention = module()
    q, k = numbers(1, 4, 3, 4, seed=6).requires_grad_(), numbers(1, 4, 4, 4, seed=7).requires_grad_()
    context = AttentionContext(torch.arange(3), torch.arange(4))
    assert torch.autograd.gradcheck(lambda q, k: attention.weights(q, k, context), (q, k))
    attention.weights(q, k, context).square().sum().backward()
    assert attention.coverage.grad is not None
    assert bool(attention.coverage.grad.any())


def test_in_a_recurrent_decoder_it_is_the_same_equation() -> None:
    """One head as wide as the model, two rows a sentence; step after step, the weights are added up."""
    torch.manual_seed(0)
    attention = CoverageRecurrent(8).double()
    with torch.no_grad():
        attention.coverage.copy_(numbers(1, 8, seed=3))
    steps, memory, keep = numbers(3, 4, 8), numbers(2, 7, 8, seed=1), ragged([7, 5])
    carried, found = attention.first(4, memory), []
    for q in steps:
        context, weights, carried = attention(q[:, None], attention.keys(memory), memory, keep, carried)
        torch.testing.assert_close(context, weights @ memory.repeat_interleave(2, 0))
        found.append(weights[:, 0])
    q = attention.query(steps).transpose(0, 1)[:, None]
    k = attention.key(memory).repeat_interleave(2, 0)[:, None]
    wanted = by_loops(q, k, attention.coverage, attention.score.v, [7, 7, 5, 5])
    torch.testing.assert_close(torch.stack(found, dim=1), wanted[:, 0], rtol=0, atol=1e-12)


def test_in_a_recurrent_decoder_it_starts_as_additive_attention() -> None:
    attention, additive = CoverageRecurrent(8).double(), AdditiveAttention(8).double()
    additive.load_state_dict({name: value for name, value in attention.state_dict().items() if name != "coverage"})
    q, memory, keep = numbers(4, 8), numbers(2, 7, 8, seed=1), ragged([7, 5])
    carried = numbers(4, 7, seed=2).abs()
    for ours, theirs in zip(
        *(each(q[:, None], each.keys(memory), memory, keep, carried)[:2] for each in (attention, additive)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
