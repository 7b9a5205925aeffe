"""The picture of who attends to whom, drawn from what the modules really do."""

from xml.etree import ElementTree

import torch

from qkv.functional.masks import both, build_mask, causal, dilated, within
from qkv.layers.attention import LongformerAttention, attentions
from qkv.visual.attention_patterns import EXAMPLES, draw_patterns, every_pattern, pattern, patterns_of
from tests.support.small import small_model


def test_every_kind_has_its_pattern() -> None:
    panels, pos = every_pattern(24), torch.arange(24)
    assert {config.kind for config, _ in EXAMPLES.values()} == {
        kind for kind in attentions.names() if attentions.example(kind).self_attention
    }
    wanted = {
        "full, decoder": causal,
        "causal": causal,
        "truncated, left 4": within(4),
        "truncated, decoder": within(4, 0),
        "truncated, dilation 3": both(within(9), dilated(3)),
        "longformer, decoder": within(4, 0),
    }
    for name, predicate in wanted.items():
        mask = build_mask(predicate, pos, pos)
        assert mask is not None
        assert torch.equal(panels[name], mask[0, 0]), name
    assert bool(panels["full"].all())
    longformer = panels["longformer, 2 global"]
    assert bool(longformer[[0, 20]].all() and longformer[:, [0, 20]].all())
    assert int(longformer[10].sum()) == 9 + 2


def test_the_layers_of_a_model() -> None:
    windows = {"kind": "longformer", "window": [2, 4]}
    panels = patterns_of(small_model(encoder_attention=windows), 8)
    assert list(panels) == ["encoder, layer 1", "encoder, layer 2", "decoder, layer 1", "decoder, layer 2"]
    assert [int(panel[4].sum()) for panel in panels.values()] == [3, 5, 5, 5]


def test_a_token_that_is_global_wherever_it_stands_is_shown_once() -> None:
    setting = {"kind": "longformer", "window": 2, "global_tokens": ["a"]}
    attention = small_model(encoder_attention=setting).encoder.layers[0].attention
    assert isinstance(attention, LongformerAttention)
    attention.learn_ids({"a": 7}.__getitem__)
    assert pattern(attention, 9).all(1).nonzero().flatten().tolist() == [4]


def test_the_picture_is_xml_with_a_name_for_each_panel() -> None:
    panels = {"a < b": torch.ones(3, 3).tril().bool()}
    picture = ElementTree.fromstring(draw_patterns(panels, "who & whom"))
    texts = [element.text for element in picture.iter() if element.text]
    assert "a < b" in texts
    assert "who & whom" in texts
    paths = [str(element.get("d")).count("M") for element in picture.iter("{http://www.w3.org/2000/svg}path")]
    assert paths == [3, 3]
