"""The picture of a beam search holds exactly what the search kept."""

from xml.etree import ElementTree

import pytest

from qkv.core.errors import UsageError
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.models.transformer.config import TransformerConfig
from qkv.search.beam import BeamConfig
from qkv.visual.beam_tree import Node, draw_tree, grow_tree
from tests.support.pictures import boxes
from tests.support.small import small_config, small_model, small_text


@pytest.fixture(scope="module")
def saved() -> SavedModel:
    config, tokenizers = small_text()
    size = len(tokenizers.tgt)
    model: TransformerConfig = small_config()
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
    nodes += [Node(label, -3.0, root, 1, 2) for label in ("\x00\x1b\x08", "\ufffe\udc80", "é\x85😀")]
    drawn = ElementTree.fromstring(draw_tree(nodes, "a < b & c\x07\udcff").encode())
    assert drawn[0].text == "a < b & c��"
    texts = [element.text for group in boxes(drawn) for element in group.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [
        "START",
        "0.00",
        "</svg><script>",
        "-1.50",
        "b",
        "-2.00",
        "���",
        "-3.00",
        "��",
        "-3.00",
        "é\x85😀",
        "-3.00",
    ]
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}path"))) == 5


def test_a_box_says_what_ranks_it(saved: SavedModel) -> None:
    """log p while it lives; the score, by which the best output is chosen, when it has ended."""
    for penalty in ({"kind": "none"}, {"kind": "power", "alpha": 0.7}, {"kind": "gnmt"}):
        search = BeamConfig(size=3, max_length=6, length_penalty=penalty)
        nodes, best = grow_tree(saved, "aa bc", search)
        finished = [node for node in nodes if node.finished]
        scores = [node.score for node in finished if node.score is not None]
        assert len(scores) == len(finished)
        assert max(scores) == pytest.approx(best.score)
        assert all((node.score is None) == (not node.finished) for node in nodes)
        drawn = ElementTree.fromstring(draw_tree(nodes, "title").encode())
        assert f"score {best.score:.2f}" in [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]


def test_a_text_that_would_be_cut_or_is_empty_is_refused(saved: SavedModel) -> None:
    search = BeamConfig(size=2, max_length=3)
    for text in ("", " "):
        with pytest.raises(UsageError, match="the text is empty"):
            grow_tree(saved, text, search)
    grow_tree(saved, "aa bc", search, max_src_tokens=3)
    with pytest.raises(UsageError, match="has 3 tokens, and 2 can be read at most"):
        grow_tree(saved, "aa bc aa", search, max_src_tokens=3)
    size = len(saved.tokenizers.tgt)
    short = small_model(3, size, size, positions={"kind": "learned", "max_length": 3}).eval()
    limited = SavedModel(short, saved.tokenizers, saved.config)
    grow_tree(limited, "aa bc", search)
    with pytest.raises(UsageError, match="has 3 tokens, and 2 can be read at most"):
        grow_tree(limited, "aa bc aa", search, max_src_tokens=100)


def test_a_search_that_ranks_by_attention_is_given_it(saved: SavedModel) -> None:
    _, plain = grow_tree(saved, "aa bc", BeamConfig(size=3, max_length=1))
    _, covering = grow_tree(saved, "aa bc", BeamConfig(size=3, max_length=1, coverage_penalty=0.5))
    assert covering.score != plain.score
