"""Every kind of model that predicts the next token: cached steps, any batch, causality, searches, files."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.core.errors import UsageError
from qkv.layers.attention.scores import scores
from qkv.layers.recurrent import recurrent_attentions, recurrent_encoders
from qkv.layers.recurrent.attention import ContentAttentionConfig
from qkv.models.base import Model
from qkv.models.config import Seq2SeqConfig
from qkv.models.kinds import models
from qkv.models.recurrent.config import RecurrentConfig
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.models.size import count_parameters
from qkv.search.base import LengthLimits, SearchTask, StepwiseSearch
from qkv.search.beam import BeamSearch
from qkv.search.greedy import GreedySearch
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.sampling import SampleSearch
from qkv.search.speculative.blocks import ModelBlocks
from qkv.text import SPECIAL
from tests.support.searched import SMALL, TEXT, TOKENIZERS, small
from tests.support.small import batch_of, stir

VOCAB = len(TOKENIZERS.tgt)
SEQ2SEQ = [kind for kind in models.names() if issubclass(models[kind], Seq2SeqConfig)]
WITHOUT_BLOCKS = sorted(set(SEQ2SEQ) - {"transformer", "text_to_text"})
every_kind = pytest.mark.parametrize("kind", sorted(SMALL))


def built(kind: str) -> Model:
    torch.manual_seed(0)
    config = small(kind)
    model = config.build(config.tokenizers(TOKENIZERS)).double().eval()
    stir(model)
    return model


def test_every_registered_kind_is_tried() -> None:
    assert set(SEQ2SEQ) == {kind.split()[0] for kind in SMALL}


def test_every_part_of_a_recurrent_model_is_tried() -> None:
    configs = [config for config in map(small, SMALL) if isinstance(config, RecurrentConfig)]
    attentions = [config.attention for config in configs]
    scored = [attention.score.kind for attention in attentions if isinstance(attention, ContentAttentionConfig)]
    assert {attention.kind for attention in attentions} == set(recurrent_attentions.names())
    assert {config.encoder.kind for config in configs} == set(recurrent_encoders.names())
    assert set(scored) == set(scores.names())


@every_kind
def test_cached_equals_full_for_reordered_beams(kind: str) -> None:
    model, batch = built(kind), batch_of([(4, 3), (1, 5), (6, 2)], vocab=VOCAB)
    cached, full = ModelSteps(model), PrefixSteps(model)
    fast, slow = cached.start(batch.src, batch.src_keep, 2), full.start(batch.src, batch.src_keep, 2)
    tokens = torch.full((6,), SPECIAL.bos)
    orders = [
        ([1, 0, 3, 3, 5, 4], [0, 1, 2]),
        ([0, 1, 2, 3, 4, 5], [0, 1, 2]),
        ([4, 5, 0, 1], [2, 0]),
        ([3, 2], [1]),
        ([0, 0], [0]),
    ]
    for rows, sentences in orders:
        (said, fast), (wanted, slow) = cached.step(tokens, fast), full.step(tokens, slow)
        torch.testing.assert_close(said.log_probs, wanted.log_probs, atol=1e-12, rtol=0)
        fast = fast.reorder(torch.tensor(rows), torch.tensor(sentences))
        slow = slow.reorder(torch.tensor(rows), torch.tensor(sentences))
        tokens = wanted.log_probs.argmax(dim=1)[torch.tensor(rows)]


@every_kind
def test_a_sentence_is_the_same_alone_and_in_a_batch(kind: str) -> None:
    model, batch = built(kind), batch_of([(4, 3), (1, 5)], vocab=VOCAB)
    with torch.no_grad():
        together = model(batch).states
        first, second = (model(part).states for part in batch.split())
    torch.testing.assert_close(together[:1, :4], first[:, :4], atol=1e-12, rtol=0)
    torch.testing.assert_close(together[1:], second, atol=1e-12, rtol=0)


@every_kind
def test_no_position_depends_on_later_tokens(kind: str) -> None:
    """Changing a token changes its own position and later ones, and nothing before."""
    model, batch = built(kind), batch_of([(4, 6)], vocab=VOCAB)
    with torch.no_grad():
        before = model(batch).states
        batch.tgt_in[0, 3] = 5 + (int(batch.tgt_in[0, 3]) - 4) % (VOCAB - 5)
        after = model(batch).states
    changed = (before != after).any(dim=-1)[0]
    assert not bool(changed[:3].any())
    assert bool(changed[3])


@every_kind
def test_no_gradient_flows_back_from_the_past_to_the_future(kind: str) -> None:
    """∂ state_t / ∂ embedded_s is exactly 0 for s > t, and not 0 for s = t."""
    model, batch, embedded = built(kind), batch_of([(4, 6)], vocab=VOCAB), list[Tensor]()
    model.tgt_embedding.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    states = model(batch).states[0]
    target = embedded[-1]  # one table may embed the source, too
    assert target.shape[:2] == batch.tgt_in.shape
    # The start symbol is not written to the memory of a Neural GPU, which ends before the last position.
    for position in range(1, 6):
        direction = torch.randn(states.shape[1], generator=torch.Generator().manual_seed(position)).double()
        (gradient,) = torch.autograd.grad(states[position] @ direction, target, retain_graph=True)
        assert bool(gradient[0, position].any())
        assert not gradient[0, position + 1 :].any()


@every_kind
def test_what_stands_in_the_padding_changes_nothing(kind: str) -> None:
    """Any ids, special ones included, behind the ends of source and target; more of it, too."""
    model, batch = built(kind), batch_of([(4, 3), (1, 5), (2, 0)], vocab=VOCAB)
    keep, counts = batch.src_keep, batch.tgt_weight > 0
    with torch.no_grad():
        wanted = model(batch).states[counts]
        for columns in (0, 3):
            for seed in range(4):
                torch.manual_seed(seed)
                src_keep, real = (F.pad(each, (0, columns)) for each in (keep, counts))
                src, tgt_in = (
                    torch.where(own, F.pad(ids, (0, columns)), torch.randint(VOCAB, own.shape))
                    for ids, own in ((batch.src, src_keep), (batch.tgt_in, real))
                )
                littered = replace(batch, src=src, src_keep=src_keep, tgt_in=tgt_in)
                found = model(littered).states[real]
                torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)


@every_kind
@pytest.mark.parametrize(
    "search", [GreedySearch(), BeamSearch(size=3), SampleSearch(samples=2)], ids=["greedy", "beam", "sample"]
)
def test_the_searches_find_the_same_in_cached_steps(kind: str, search: StepwiseSearch) -> None:
    model, batch = built(kind), batch_of([(4, 3), (1, 5)], vocab=VOCAB)
    task = SearchTask(batch.src, batch.src_keep, SPECIAL, [LengthLimits(12)] * 2)
    found, wanted = (search.run(steps(model), task) for steps in (ModelSteps, PrefixSteps))
    assert [[each.tokens for each in own] for own in found] == [[each.tokens for each in own] for own in wanted]


@every_kind
def test_saved_and_loaded_it_is_the_same_bit_for_bit(kind: str, tmp_path: Path) -> None:
    model, batch = built(kind).float(), batch_of([(4, 3), (1, 5)], vocab=VOCAB)
    save_model(tmp_path / "model", SavedModel(model, TOKENIZERS, SavedConfig(model=small(kind), text=TEXT)))
    loaded = load_model(tmp_path / "model").model
    with torch.no_grad():
        assert torch.equal(loaded(batch).states, model(batch).states)


@every_kind
def test_its_weights_are_counted_without_building_it(kind: str) -> None:
    assert count_parameters(small(kind), small(kind).tokenizers(TOKENIZERS)) == sum(
        each.numel() for each in built(kind).parameters()
    )


@pytest.mark.parametrize("kind", WITHOUT_BLOCKS)
def test_no_drafts_are_verified(kind: str) -> None:
    with pytest.raises(UsageError, match=f"kind {kind} "):
        ModelBlocks(built(kind))


@pytest.mark.parametrize("kind", WITHOUT_BLOCKS)
@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"decoder": "ctc"}, "decoder ctc is for model.kind transformer"),
        ({"draft": "blockwise"}, "draft blockwise is for model.kind transformer"),
        ({"num_heads": 4}, "unknown key of kind"),
    ],
)
def test_what_does_not_go_with_it(kind: str, keys: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        models[kind].model_validate(keys)


@pytest.mark.parametrize("kind", ["bytenet", "convolutional", "memory_network", "neural_gpu"])
def test_it_takes_the_head_linear_only(kind: str) -> None:
    with pytest.raises(ValueError, match=r"head pointer_generator is for model.kind transformer or recurrent"):
        models[kind].model_validate({"head": "pointer_generator"})
