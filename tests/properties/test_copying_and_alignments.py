"""What holds for every source: copying is a distribution, monotone stops never go back, nothing leaks from padding."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from qkv.functional.alignment import diagonal_likelihood, guided_attention
from qkv.functional.copying.coverage import coverage, coverage_loss
from qkv.functional.monotonic.stops import expected_alignment, expected_alignment_by_recursion, hard_stops
from qkv.layers.attention import attentions
from qkv.layers.attention.context import AttentionContext
from qkv.models.heads.base import AttentionChoice, HeadContext
from qkv.models.heads.copying import CopyHead
from qkv.models.heads.copynet import CopyNet
from qkv.models.heads.pointer_generator import OwnPointerGenerator, PointerGenerator
from qkv.text import SPECIAL
from tests.support.attentions import FOLLOWING, HEADS, WIDTH, ragged
from tests.support.small import stir

VOCAB = 8
SEED = st.integers(0, 2**32)
LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=3)
SOURCES = st.lists(st.lists(st.integers(3, VOCAB + 2), min_size=1, max_size=6), min_size=1, max_size=3)
"""Known tokens, and `VOCAB` and above for unknown ones; a source may repeat any of them."""

few = settings(max_examples=15, deadline=None)
each_kind = pytest.mark.parametrize("kind", ["cross", "own", "copynet"])
each_attention = pytest.mark.parametrize("kind", [setting["kind"] for setting in FOLLOWING])


def same(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)


def copy_head(kind: str) -> CopyHead:
    weight = nn.Parameter(torch.randn(VOCAB, 4))
    if kind == "cross":
        return PointerGenerator(weight, AttentionChoice()).double()
    return (CopyNet(weight) if kind == "copynet" else OwnPointerGenerator(weight)).double()


def with_ids_of_first_places(tokens: list[int]) -> list[int]:
    """An unknown token has the id V + s of the first position s that holds it."""
    return [VOCAB + tokens.index(token) if token >= VOCAB else token for token in tokens]


@each_kind
@few
@given(sources=SOURCES, more=st.integers(0, 3), seed=SEED)
@torch.no_grad()
def test_what_is_generated_and_copied_is_a_distribution(
    kind: str, sources: list[list[int]], more: int, seed: int
) -> None:
    """Ids that are neither known nor in the source get nothing, and a sentence is as it is alone."""
    torch.manual_seed(seed)
    head, width = copy_head(kind), max(map(len, sources)) + more
    states, scores = torch.randn(len(sources), 4).double(), torch.randn(len(sources), width).double()
    rows = [with_ids_of_first_places(tokens) for tokens in sources]
    src = torch.tensor([row + [SPECIAL.pad] * (width - len(row)) for row in rows])
    attention = scores.masked_fill(src == SPECIAL.pad, -torch.inf).softmax(-1)
    found = head.log_probs(states, HeadContext(src, attention, scores)).exp()
    same(found.sum(-1), torch.ones(len(sources)).double())
    for number, row in enumerate(rows):
        possible = torch.zeros(VOCAB + width, dtype=torch.bool)
        possible[:VOCAB] = possible[torch.tensor(row)] = True
        assert bool((found[number][possible] > 0).all())
        assert not found[number][~possible].any()
        alone = HeadContext(*(part[number : number + 1, : len(row)] for part in (src, attention, scores)))
        same(head.log_probs(states[number : number + 1], alone).exp()[0], found[number, : VOCAB + len(row)])


@few
@given(outputs=st.integers(1, 6), keys=st.integers(1, 7), seed=SEED)
def test_expected_stops_are_those_of_the_recursion_and_see_no_later_output(outputs: int, keys: int, seed: int) -> None:
    torch.manual_seed(seed)
    energy = 4 * torch.randn(2, outputs, keys).double()
    energy[..., -1] = 50
    found = expected_alignment(energy)
    same(found, expected_alignment_by_recursion(energy.sigmoid()))
    same(found.sum(-1), torch.ones(2, outputs).double())
    passed = found.cumsum(-1)
    assert bool((passed[:, 1:] <= passed[:, :-1] + 1e-10).all()), "an output stops before the one that precedes it"
    same(expected_alignment(energy[:, : outputs // 2 + 1]), found[:, : outputs // 2 + 1])


@few
@given(outputs=st.integers(1, 6), keys=st.integers(1, 7), seed=SEED)
def test_hard_stops_never_go_back(outputs: int, keys: int, seed: int) -> None:
    torch.manual_seed(seed)
    stops = torch.rand(3, outputs, keys) < 0.4
    found = hard_stops(stops)
    assert bool((found.diff(dim=-1) >= 0).all())
    for row, at in zip(stops.flatten(0, 1), found.flatten().tolist(), strict=True):
        assert at == keys or bool(row[at])


@each_attention
@few
@given(lengths=LENGTHS, outputs=st.integers(1, 4), seed=SEED)
@torch.no_grad()
def test_following_attention_is_a_distribution_and_padding_counts_nothing(
    kind: str, lengths: list[int], outputs: int, seed: int
) -> None:
    torch.manual_seed(seed)
    module, keys = attentions.example(kind).build(WIDTH, HEADS, 0.0, None, 0).double().eval(), max(lengths)
    stir(module)
    q, k = (torch.randn(len(lengths), HEADS, n, WIDTH // HEADS).double() for n in (outputs, keys))
    weights = module.weights(q, k, AttentionContext(torch.arange(outputs), torch.arange(keys), keep=ragged(lengths)))
    same(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
    for number, length in enumerate(lengths):
        assert not weights[number, :, :, length:].any()
        one = slice(number, number + 1)
        context = AttentionContext(torch.arange(outputs), torch.arange(length))
        same(module.weights(q[one], k[one, :, :length], context)[0], weights[number, :, :, :length])
        first = AttentionContext(torch.arange(1), torch.arange(length))
        same(module.weights(q[one, :, :1], k[one, :, :length], first)[0, :, 0], weights[number, :, 0, :length])


@few
@given(lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=3), seed=SEED)
def test_losses_on_attention_are_those_of_each_sentence_alone(lengths: list[tuple[int, int]], seed: int) -> None:
    torch.manual_seed(seed)
    src_keep, tgt_keep = (ragged([pair[side] for pair in lengths]) for side in (0, 1))
    weights = torch.randn(len(lengths), 2, tgt_keep.shape[1], src_keep.shape[1]).double()
    weights = weights.masked_fill(~src_keep[:, None, None], -torch.inf).softmax(-1)
    guided = guided_attention(weights, tgt_keep, src_keep, 0.2)
    diagonal = diagonal_likelihood(weights, tgt_keep, src_keep, 0.2)
    assert bool((diagonal >= 0).all())
    assert bool(((guided >= 0) & (guided <= 1)).all())
    for number, (src, tgt) in enumerate(lengths):
        alone = weights[number : number + 1, :, :tgt, :src]
        whole = torch.ones(1, tgt).bool(), torch.ones(1, src).bool()
        same(guided[number : number + 1], guided_attention(alone, *whole, 0.2))
        same(diagonal[number : number + 1], diagonal_likelihood(alone, *whole, 0.2))
        cost = coverage_loss(weights[number])
        assert bool(((cost >= 0) & (cost <= 1 + 1e-12)).all())
        same(cost[:, :tgt], coverage_loss(alone[0]))
        same(coverage(alone[0])[:, -1] + alone[0][:, -1], alone[0].sum(dim=1))
