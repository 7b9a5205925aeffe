"""The cached decoder equals the whole prefix decoded again, for every kind of part that a model is made of."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.inference.transformer import TransformerInference
from qkv.models.transformer.model import Transformer
from qkv.search.models import Ensemble, ModelSteps, PrefixSteps
from qkv.search.protocol import StepFunction
from qkv.text import SPECIAL
from qkv.text.special import NEVER_OUTPUT
from tests.support.parts import PARTS, random_tokens, sources
from tests.support.small import VOCAB, small_model

STEPS = 40
"""More than the room that the cache starts with, twice."""


def walk(steps: StepFunction, src: Tensor, keep: Tensor, tokens: list[Tensor]) -> list[Tensor]:
    state, found = steps.start(src, keep), []
    for now in tokens:
        output, state = steps.step(now, state)
        found.append(output.log_probs)
    return found


@pytest.mark.parametrize("parts", [*PARTS, {"share_layers": True}, {"share_embeddings": "none"}], ids=str)
def test_cached_equals_full_at_every_step(parts: dict[str, Any]) -> None:
    model = small_model(**parts).eval()
    src, keep = sources([7, 3, 0])
    tokens = random_tokens(3, STEPS)
    for cached, full in zip(
        walk(ModelSteps(model), src, keep, tokens), walk(PrefixSteps(model), src, keep, tokens), strict=True
    ):
        torch.testing.assert_close(cached, full, atol=1e-5, rtol=0)
        assert torch.equal(cached.argmax(-1), full.argmax(-1))
        torch.testing.assert_close(cached.exp().sum(-1), torch.ones(3))
        assert cached[:, NEVER_OUTPUT].isneginf().all()


@pytest.fixture
def model() -> Transformer:
    return small_model().eval()


def test_encoding_equals_the_model_s(model: Transformer) -> None:
    src, keep = sources([7, 3, 0])
    with torch.no_grad():
        ours, theirs = TransformerInference(model).encode(src, keep), model.encode(src, keep)
    torch.testing.assert_close(ours[keep], theirs[keep], atol=1e-6, rtol=0)


@pytest.mark.parametrize("make", [ModelSteps, PrefixSteps, lambda model: Ensemble([ModelSteps(model)] * 2)])
def test_reorder_follows_rows_and_sentences(model: Transformer, make: Any) -> None:
    """Two beams a sentence; the first sentence leaves, the beams of the others change places or are doubled."""
    steps = make(model)
    src, keep = sources([7, 3, 5])
    first, second, third = (torch.randint(5, VOCAB, (6,)) for _ in range(3))
    state = steps.start(src, keep, beams=2)
    for tokens in (first, second):
        _, state = steps.step(tokens, state)
    rows, kept = torch.tensor([3, 3, 5, 4]), torch.tensor([1, 2])
    output, _ = steps.step(third[:4], state.reorder(rows, kept))
    alone = walk(PrefixSteps(model), src[[1, 1, 2, 2]], keep[[1, 1, 2, 2]], [first[rows], second[rows], third[:4]])
    torch.testing.assert_close(output.log_probs, alone[-1], atol=1e-5, rtol=0)


def test_a_state_is_a_value(model: Transformer) -> None:
    """Two ways on from one state do not disturb each other."""
    steps = ModelSteps(model)
    src, keep = sources([4, 4])
    bos, one, other, last = (torch.full((2,), token) for token in (SPECIAL.bos, 7, 8, 9))
    _, state = steps.step(bos, steps.start(src, keep))
    _, left = steps.step(one, state)
    _, right = steps.step(other, state)
    for middle, now in ((one, left), (other, right)):
        found, _ = steps.step(last, now)
        torch.testing.assert_close(found.log_probs, walk(PrefixSteps(model), src, keep, [bos, middle, last])[-1])


def test_attention_is_a_distribution_over_the_real_source(model: Transformer) -> None:
    src, keep = sources([7, 3])
    steps = ModelSteps(model, attention=True)
    output, _ = steps.step(torch.full((4,), SPECIAL.bos), steps.start(src, keep, beams=2))
    assert output.attention is not None
    torch.testing.assert_close(output.attention.sum(-1), torch.ones(4))
    assert torch.equal(output.attention > 0, keep.repeat_interleave(2, 0))
    assert torch.equal(output.attention[0], output.attention[1])
    assert ModelSteps(model).step(torch.full((2,), 2), ModelSteps(model).start(src, keep))[0].attention is None


def test_an_ensemble_averages_probabilities() -> None:
    members = [ModelSteps(small_model(seed).eval()) for seed in (0, 1)]
    src, keep = sources([3, 6])
    tokens = random_tokens(2, 3)
    apart = [walk(member, src, keep, tokens)[-1].exp() for member in members]
    torch.testing.assert_close(walk(Ensemble(members), src, keep, tokens)[-1].exp(), sum(apart) / 2)
