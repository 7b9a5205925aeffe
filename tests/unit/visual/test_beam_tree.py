"""The picture of a beam search holds exactly what the search kept."""

from xml.etree import ElementTree

import pytest

from qkv.decoding.beam import BeamConfig
from qkv.models.config import ModelConfig
from qkv.models.folder import SavedConfig, SavedModel
from qkv.visual.beam_tree import Node, draw_tree, grow_tree
from tests.support.small import small_config, small_model, small_text


@pytest.fixture(scope="module")
def saved() -> SavedModel:
    config, tokenizers = small_text()
    size = len(tokenizers.tgt)
    model: ModelConfig = small_config()
    return SavedModel(small_model(3, size, size).eval(), tokenizers, SavedConfig(model=model, text=config))


@pytest.mark.parametrize("size", [1, 3])
def test_every_step_keeps_at_most_two_beams_and_each_node_follows_its_parent(saved: SavedModel, size: int) -> None:
    nodes, best = grow_tree(saved, "aa bc", BeamConfig(size=size, max_length=6))
    for node in nodes[1:]:
        assert node.parent is not None
        assert node.parent.step == node.step - 1
        assert not node.parent.finished
        assert node.total <= node.parent.total
    steps = {node.step for node in nodes}
    for step in steps:
        assert sum(node.step == step and not node.finished for node in nodes) <= size
    path = [node.label for node in nodes[1:] if node.best]
    wanted = saved.tokenizers.tgt.tokens(best.tokens) + (["END"] if best.ended else [])
    assert path == wanted


def test_the_picture_is_xml_and_no_token_can_break_it(saved: SavedModel) -> None:
    root = Node("START", 0.0, None, 0, 0, best=True)
    nodes = [root, Node("</svg><script>", -1.5, root, 1, 0, finished=True, best=True), Node("b", -2.0, root, 1, 1)]
    drawn = ElementTree.fromstring(draw_tree(nodes, "a < b & c"))
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["START", "0.00", "</svg><scr…", "-1.50", "b", "-2.00"]
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}path"))) == 2
