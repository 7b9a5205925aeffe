"""Models without some of their heads: equal to closed heads, cached and whole, in every engine, saved and loaded."""

from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import ConfigError, UsageError
from qkv.inference.transformer import TransformerInference
from qkv.layers.attention.pruning import add_empty_heads, head_columns, keep_heads
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.models.transformer.head_ids import HeadId, own_attentions
from qkv.models.transformer.model import Transformer
from qkv.models.transformer.pruning import closed_heads, prune_heads, with_even_heads, without_gates
from qkv.translate.translator import Translator
from qkv.visual.heads.prune import remove_down_to
from tests.support.small import batch_of, small_config, small_model, small_text, stir, transformer

UNEVEN = {"encoder": [[2], [1, 3, 4]], "decoder": [[], [1, 2]], "cross": [[1, 2, 3], [4]]}
SETTINGS: list[dict[str, Any]] = [
    {},
    *({"positions": kind} for kind in ("rope", "t5", "alibi", "shaw")),
    {"wiring": "layerwise"},
    {"wiring": "concatenated"},
    {"stack": "reversible", "residual": "pre"},
    {"encoder_attention": "causal", "decoder_attention": {"kind": "truncated", "left": 2}},
    {"encoder_attention": {"kind": "full", "score": "dot"}},
]


def closed_and_pruned(**settings: Any) -> tuple[Transformer, Transformer]:
    """A model whose heads `UNEVEN` give 0, and one without these heads, in float64."""
    closed = small_model(num_heads=4, **settings).double().eval()
    pruned = small_model(num_heads=4, pruned_heads=UNEVEN, **settings).double().eval()
    sides = {
        "encoder": [
            (layer.attention, other.attention) for layer, other in zip(*both(closed, pruned, "encoder"), strict=True)
        ],
        "decoder": [
            (layer.attention, other.attention) for layer, other in zip(*both(closed, pruned, "decoder"), strict=True)
        ],
        "cross": [
            (layer.cross_attention, other.cross_attention)
            for layer, other in zip(*both(closed, pruned, "decoder"), strict=True)
        ],
    }
    shapes = {name: parameter.shape for name, parameter in pruned.named_parameters()}
    weights = dict(closed.named_parameters())
    with torch.no_grad():
        for name, parameter in pruned.named_parameters():
            if weights[name].shape == shapes[name]:
                parameter.copy_(weights[name])
        for side, pairs in sides.items():
            for (whole, smaller), gone in zip(pairs, UNEVEN[side], strict=True):
                width = whole.head_width
                channels = [head * width + at for head in range(4) if head + 1 not in gone for at in range(width)]
                for name in ("query", "key", "value"):
                    getattr(smaller, name).weight.copy_(getattr(whole, name).weight[channels])
                    getattr(smaller, name).bias.copy_(getattr(whole, name).bias[channels])
                smaller.output.weight.copy_(whole.output.weight[:, channels])
                for head in gone:
                    head_columns(whole, head - 1).zero_()
    return closed, pruned


def both(one: Transformer, other: Transformer, side: str) -> tuple[list[Any], list[Any]]:
    return list(getattr(one, side).layers), list(getattr(other, side).layers)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_closed_heads_equal_removed_heads(settings: dict[str, Any]) -> None:
    closed, pruned = closed_and_pruned(**settings)
    batch = batch_of([(5, 4), (3, 6)])
    with torch.no_grad():
        torch.testing.assert_close(pruned(batch).states, closed(batch).states, atol=1e-12, rtol=0)
    sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (pruned, closed)]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_decoding_with_a_cache_equals_the_whole_pass(settings: dict[str, Any]) -> None:
    _, pruned = closed_and_pruned(**settings)
    batch = batch_of([(5, 6), (3, 6)])
    with torch.no_grad():
        whole = pruned(batch).states
        inference = TransformerInference(pruned)
        state, found = inference.start(batch.src, batch.src_keep), []
        for first, last in ((0, 1), (1, 2), (2, 5), (5, 7)):
            output, state = inference.extend(batch.tgt_in[:, first:last], state)
            found.append(output.states)
            state = state.reorder(torch.tensor([0, 1]), torch.tensor([0, 1]))
        torch.testing.assert_close(torch.cat(found, 1), whole, atol=1e-12, rtol=0)


@pytest.fixture(scope="module")
def whole() -> SavedModel:
    text, tokenizers = small_text()
    config = SavedConfig(model=small_config(num_heads=4), text=text)
    torch.manual_seed(0)
    model = config.model.build(tokenizers)
    stir(model)
    return SavedModel(model.eval(), tokenizers, config)


GONE = [HeadId("encoder", 1, 2), HeadId("cross", 2, 1), HeadId("cross", 2, 4), HeadId("decoder", 1, 3)]


def test_a_pruned_model_is_that_with_closed_heads_saved_and_loaded(whole: SavedModel, tmp_path: Path) -> None:
    batch = batch_of([(3, 2), (6, 5)], vocab=len(whole.tokenizers.src))
    pruned = prune_heads(prune_heads(whole, GONE[:2]), [HeadId("cross", 2, 3), GONE[3]])
    assert pruned.config.model == small_config(
        num_heads=4, pruned_heads={"encoder": [[2], []], "decoder": [[3], []], "cross": [[], [1, 4]]}
    )
    save_model(tmp_path / "pruned", pruned)
    loaded = load_model(tmp_path / "pruned").model
    before = whole.model(batch).states
    with torch.no_grad(), closed_heads(transformer(whole.model), GONE):
        closed = whole.model(batch).states
    torch.testing.assert_close(loaded(batch).states, closed)
    assert not torch.allclose(closed, before)
    assert torch.equal(whole.model(batch).states, before), "the heads are open again"


def test_the_last_head_of_an_attention_stays(whole: SavedModel) -> None:
    with pytest.raises(UsageError, match=r"cross 1: one head of each attention must stay"):
        prune_heads(whole, [HeadId("cross", 1, number) for number in (1, 2, 3, 4)])


@pytest.mark.parametrize("chosen", [None, [2]])
def test_cross_attention_that_the_output_head_copies_with_keeps_its_heads(chosen: list[int] | None) -> None:
    text, tokenizers = small_text()
    head = {"kind": "pointer_generator", "heads": chosen}
    settings: dict[str, Any] = {"num_heads": 4, "head": head, "head_gates": {"penalty": 0.1, "start": -9.0}}
    config = SavedConfig(model=small_config(**settings), text=text)
    gated = SavedModel(config.model.build(tokenizers).eval(), tokenizers, config)
    saved, closed = without_gates(gated)
    assert {head.side for head in closed} == {"encoder", "decoder"}
    with pytest.raises(UsageError, match="its heads stay; remove heads of encoder and decoder"):
        prune_heads(saved, [HeadId("cross", 1, 1)])
    rank = {head: 1.0 for place in own_attentions(transformer(saved.model)) for head in place.heads}
    removed = remove_down_to(saved, 12, rank)
    assert {head.side for head in removed} == {"encoder", "decoder"}
    with pytest.raises(UsageError, match=r"\(those that the output head reads keep all\); give a number from 12 to 24"):
        remove_down_to(saved, 11, rank)
    batch = batch_of([(3, 2), (6, 5)], vocab=len(tokenizers.src))
    pruned = prune_heads(saved, removed)
    with torch.no_grad(), closed_heads(transformer(saved.model), removed):
        for one, other in zip(pruned.model(batch), saved.model(batch), strict=True):
            torch.testing.assert_close(one, other)


def test_exports_have_even_heads_and_the_same_outputs(whole: SavedModel, tmp_path: Path) -> None:
    pruned = prune_heads(whole, GONE)
    texts = ["aa ab", "bb ba cc", "ac"]
    own = Translator(pruned, "torch", search="greedy").translate(texts, alignment=True)
    fast = Translator(pruned, "ctranslate2", search="greedy").translate(texts, alignment=True)
    for one, other in zip(own, fast, strict=True):
        assert one.text == other.text
        torch.testing.assert_close(torch.tensor(one.alignment), torch.tensor(other.alignment), atol=1e-5, rtol=0)
    even = with_even_heads(pruned)
    batch = batch_of([(3, 2), (6, 5)], vocab=len(whole.tokenizers.src))
    torch.testing.assert_close(even.model(batch).states, pruned.model(batch).states)
    assert with_even_heads(whole) is whole


def test_empty_heads_change_nothing() -> None:
    _, pruned = closed_and_pruned()
    batch = batch_of([(5, 4), (3, 6)])
    with torch.no_grad():
        before = pruned(batch).states
        for layer in pruned.decoder.in_order():
            add_empty_heads(layer.cross_attention, 4)
        torch.testing.assert_close(pruned(batch).states, before, atol=1e-12, rtol=0)


def test_heads_that_share_keys_cannot_be_removed() -> None:
    model = small_model(num_heads=4, cross_attention={"kind": "full", "kv_heads": 2})
    with pytest.raises(ValueError, match="share keys and values"):
        keep_heads(next(model.decoder.in_order()).cross_attention, [0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pruned_heads": {"encoder": [[1]]}}, "has 1 lists for 2 layers"),
        ({"pruned_heads": {"cross": [[], [3]]}}, "there is no head 3"),
        ({"pruned_heads": {"decoder": [[1, 2], []]}}, "decoder, layer 1: one head must stay"),
        ({"pruned_heads": {"encoder": [[1], []]}, "encoder_attention": "lsh"}, "cannot be removed one by one"),
        ({"pruned_heads": {"cross": [[1], []]}, "cross_attention": "monotonic"}, "cannot be removed one by one"),
    ],
)
def test_what_cannot_be_is_refused_when_the_config_is_read(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        small_config(**changes)
