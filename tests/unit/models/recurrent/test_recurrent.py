"""The recurrent model through the contract: cached steps, any batch, attention, and what it refuses."""

import pytest
import torch

from qkv.core.errors import UsageError
from qkv.layers.attention.recording import capture_attention, name_attentions
from qkv.models.recurrent.config import RecurrentConfig, build_recurrent
from qkv.models.recurrent.model import RecurrentModel
from qkv.search.base import LengthLimits, SearchTask, StepwiseSearch
from qkv.search.beam import BeamSearch
from qkv.search.greedy import GreedySearch
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.sampling import SampleSearch
from qkv.search.speculative.blocks import ModelBlocks
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, stir


def recurrent(layers: int = 2) -> RecurrentModel:
    torch.manual_seed(0)
    config = RecurrentConfig(d_model=8, encoder_layers=layers, decoder_layers=layers, dropout=0.0)
    model = build_recurrent(config, VOCAB, VOCAB, SPECIAL.pad, "target").double().eval()
    stir(model)
    name_attentions(model)
    return model


def test_cached_equals_full_for_reordered_beams() -> None:
    model, batch = recurrent(), batch_of([(4, 3), (1, 5), (6, 2)])
    cached, full = ModelSteps(model), PrefixSteps(model)
    fast, slow = cached.start(batch.src, batch.src_keep, 2), full.start(batch.src, batch.src_keep, 2)
    tokens = torch.full((6,), SPECIAL.bos)
    for rows, sentences in (([1, 0, 3, 3, 5, 4], [0, 1, 2]), ([4, 5, 0, 1], [2, 0]), ([3, 2], [1])):
        (said, fast), (wanted, slow) = cached.step(tokens, fast), full.step(tokens, slow)
        torch.testing.assert_close(said.log_probs, wanted.log_probs, atol=1e-12, rtol=0)
        fast = fast.reorder(torch.tensor(rows), torch.tensor(sentences))
        slow = slow.reorder(torch.tensor(rows), torch.tensor(sentences))
        tokens = wanted.log_probs.argmax(dim=1)[torch.tensor(rows)]


def test_a_sentence_is_the_same_alone_and_in_a_batch() -> None:
    model, batch = recurrent(), batch_of([(4, 3), (1, 5)])
    with torch.no_grad():
        together = model(batch).states
        first, second = (model(part).states for part in batch.split())
    torch.testing.assert_close(together[:1, :4], first[:, :4], atol=1e-12, rtol=0)
    torch.testing.assert_close(together[1:], second, atol=1e-12, rtol=0)


@pytest.mark.parametrize("search", [GreedySearch(), BeamSearch(size=3), SampleSearch(samples=2)])
def test_the_searches_of_every_model(search: StepwiseSearch) -> None:
    """They end, and the score is that of the model itself."""
    model, batch = recurrent(), batch_of([(4, 3), (1, 5)])
    task = SearchTask(batch.src, batch.src_keep, SPECIAL, [LengthLimits(12)] * 2)
    found, wanted = (search.run(steps(model), task) for steps in (ModelSteps, PrefixSteps))
    assert [[each.tokens for each in own] for own in found] == [[each.tokens for each in own] for own in wanted]


def test_attention_is_recorded_and_given_to_whoever_asks() -> None:
    model, batch = recurrent(), batch_of([(4, 3), (1, 5)])
    with torch.no_grad(), capture_attention(model) as record:
        attention = model(batch).context.attention
    assert attention is not None
    assert torch.equal(record["attention"][:, 0], attention)
    torch.testing.assert_close(attention.sum(-1), torch.ones(2, 6).double())
    assert bool((attention[1, :, 2:] == 0).all())


def test_no_drafts_are_verified() -> None:
    with pytest.raises(UsageError, match="kind recurrent takes one token after another"):
        ModelBlocks(recurrent())


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"decoder": "ctc"}, "decoder ctc is for model.kind transformer"),
        ({"draft": "blockwise"}, "draft blockwise is for model.kind transformer"),
        ({"d_model": 7}, "must be even"),
        ({"num_heads": 4}, 'unknown key of kind "recurrent"'),
    ],
)
def test_what_does_not_go_with_it(keys: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RecurrentConfig.model_validate(keys)
