"""Attention that follows the output: what training learns is what decoding does, and nothing leaks."""

import pytest
import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.functional.masks import build_mask, reading
from qkv.layers.attention import MochaAttention, MonotonicAttention, WaitKAttention
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.cross.base import SourceNeeded
from qkv.layers.attention.cross.wait_k import set_wait
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.protocol import StepFunction
from tests.support.attentions import FOLLOWING, everywhere, ragged
from tests.support.parts import random_tokens, sources
from tests.support.small import decode, small_model

WIDTH, HEADS = 16, 4


def attended(module: MonotonicAttention, keep: Tensor | None, complete: bool = True) -> Tensor:
    """[B, H, 6, 9]: the weights of random queries and keys."""
    x = torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    memory = torch.randn(2, 9, WIDTH, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    context = AttentionContext(torch.arange(6), torch.arange(9), keep=keep, complete=complete)
    q = module.query(x).view(2, 6, HEADS, -1).transpose(1, 2)
    return module.weights(q, module.project(memory, context.k_pos).keys, context)


def monotonic(sureness: float = 3.0, noise: float = 1.0, chunk: int | None = None) -> MonotonicAttention:
    torch.manual_seed(0)
    module = (
        MonotonicAttention(WIDTH, HEADS, noise=noise) if chunk is None else MochaAttention(WIDTH, HEADS, chunk=chunk)
    )
    module.noise = noise
    with torch.no_grad():
        module.query.weight.mul_(sureness)
    return module.double()


def test_hard_weights_are_one_key_that_never_goes_back() -> None:
    keep = ragged([9, 5])
    weights = attended(monotonic().eval(), keep)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, 6).double())
    assert set(weights.flatten().tolist()) == {0.0, 1.0}
    stops = weights.argmax(-1)
    assert bool((stops.diff(dim=-1) >= 0).all())
    assert len(stops.unique()) > 4
    assert int(stops[1].max()) <= 4


@pytest.mark.parametrize("chunk", [None, 3])
def test_sure_and_without_noise_training_is_decoding(chunk: int | None) -> None:
    module, keep = monotonic(sureness=1e5, noise=0.0, chunk=chunk), ragged([9, 5])
    expected, hard = attended(module.train(), keep), attended(module.eval(), keep)
    torch.testing.assert_close(expected, hard, rtol=0, atol=1e-6)


def test_training_draws_noise_and_its_weights_are_a_distribution() -> None:
    module, keep = monotonic().train(), ragged([9, 5])
    first, second = attended(module, keep), attended(module, keep)
    assert not torch.equal(first, second)
    torch.testing.assert_close(first.sum(-1), torch.ones(2, HEADS, 6).double())
    assert not first[1, :, :, 5:].any()


def test_a_chunk_of_one_is_monotonic_attention() -> None:
    weights = attended(monotonic(chunk=1).eval(), None)
    assert set(weights.flatten().tolist()) == {0.0, 1.0}
    softened = attended(monotonic(chunk=3).eval(), None)
    assert torch.equal((softened > 0).sum(-1), (weights.argmax(-1) + 1).clamp_max(3))


def test_before_the_source_has_ended_nobody_has_to_stop() -> None:
    with pytest.raises(SourceNeeded):
        attended(monotonic().eval(), None, complete=False)
    waiting = WaitKAttention(WIDTH, HEADS, k=4)
    x, memory = torch.randn(1, 3, WIDTH), torch.randn(1, 5, WIDTH)
    pos = torch.arange(5)
    for queries, complete in ((2, False), (3, True)):
        context = AttentionContext(pos[:queries], pos, complete=complete)
        waiting.cross_attend(x[:, :queries], waiting.project(memory, pos), context)
    with pytest.raises(SourceNeeded):
        waiting.cross_attend(x, waiting.project(memory, pos), AttentionContext(pos[:3], pos, complete=False))


def test_wait_k_reads_one_token_with_each_output() -> None:
    mask = build_mask(reading(2), torch.arange(4), torch.arange(5))
    assert mask is not None
    assert mask[0, 0].int().tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def waiting_model(k: int) -> Transformer:
    return small_model(encoder_attention="causal", cross_attention={"kind": "wait_k", "k": k}).eval()


def test_k_may_be_another_one_at_test() -> None:
    src, keep = sources([7, 3])
    tokens = torch.stack(random_tokens(2, 5), dim=1)
    changed = waiting_model(1)
    set_wait(changed, 3)
    found, wanted, before = (
        decode(model, src, keep, tokens) for model in (changed, waiting_model(3), waiting_model(1))
    )
    assert torch.equal(found, wanted)
    assert not torch.allclose(found, before, atol=1e-3)


@pytest.mark.parametrize("setting", FOLLOWING, ids=str)
def test_beams_that_change_places_take_along_where_they_attend(setting: dict[str, object]) -> None:
    model = small_model(**everywhere(setting)).eval()
    src, keep = sources([7, 3, 5])
    first, second, third = (torch.randint(5, 23, (6,), generator=torch.Generator().manual_seed(n)) for n in range(3))
    rows, kept = torch.tensor([3, 3, 5, 4]), torch.tensor([1, 2])
    steps: list[StepFunction] = [ModelSteps(model), PrefixSteps(model)]
    found = []
    for each in steps:
        state = each.start(src, keep, beams=2)
        for tokens in (first, second):
            _, state = each.step(tokens, state)
        found.append(each.step(third[:4], state.reorder(rows, kept))[0].log_probs)
    torch.testing.assert_close(*found, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cross_attention": "monotonic", "decoder": "ctc"}, "writes it at once; use cross_attention full"),
        ({"cross_attention": "mocha", "wiring": "concatenated"}, "several keys a token; use wiring last"),
        ({"cross_attention": "monotonic", "stack": "adaptive"}, "does not go with stack adaptive; use layers"),
        ({"cross_attention": {"kind": "wait_k", "k": 3}}, "has looked ahead already; use encoder_attention causal"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_read(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TransformerConfig(d_model=WIDTH, num_heads=HEADS, **changes)


def test_a_model_without_wait_k_has_no_k() -> None:
    with pytest.raises(UsageError, match="no attention of the kind wait_k"):
        set_wait(small_model(), 3)
