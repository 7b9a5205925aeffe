"""Every kind of model from a source to a target: searches in cached steps, files, what does not go with it.

That cached steps are the whole pass, and what changes nothing, is in tests/kinds/test_invariances.py.
"""

from pathlib import Path

import pytest
import torch

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
