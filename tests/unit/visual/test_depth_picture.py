"""How many steps each token took, in the terminal and as a picture."""

from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from qkv.core.errors import UsageError
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.visual.depth import Depths, TokenDepth, depth_lines, depths_of, draw_depths
from tests.support.small import small_config, small_text


def saved(bias: float = 1.0, **changes: Any) -> SavedModel:
    config, tokenizers = small_text()
    torch.manual_seed(0)
    stack = {"kind": "adaptive", "start_bias": bias}
    settings = small_config(**{"stack": stack, "encoder_layers": 3, "decoder_layers": 4, **changes})
    return SavedModel(settings.build(tokenizers).eval(), tokenizers, SavedConfig(model=settings, text=config))


@pytest.mark.parametrize(("bias", "read", "said"), [(50.0, 1, 1), (-50.0, 3, 4)])
def test_every_token_of_both_sides_has_its_depth(bias: float, read: int, said: int) -> None:
    depths = depths_of(saved(bias), "aa bc aa")
    assert depths.source == [TokenDepth(name, read) for name in ("aa", "bc", "aa", "END")]
    assert {each.steps for each in depths.target} == {said}
    names = [each.token for each in depths.target if each.token != "END"]
    assert " ".join(names) == depths.output
    assert (depths.most_source, depths.most_target) == (3, 4)


DEPTHS = Depths([TokenDepth("a<b", 2), TokenDepth("END", 1)], [TokenDepth("x", 3)], 2, 3, "x")


def test_the_lines() -> None:
    assert depth_lines(DEPTHS) == [
        "read, 1.5 of 2 steps a token",
        "  a<b ## 2",
        "  END #. 1",
        "said, 3.0 of 3 steps a token",
        "  x   ### 3",
    ]


def test_the_picture_has_a_box_for_each_step() -> None:
    picture = ElementTree.fromstring(draw_depths(DEPTHS, "a < b \x07"))
    boxes = [box.get("class") for box in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert (boxes.count("taken"), len(boxes)) == (6, 7)
    assert "a<b" in [element.text for element in picture.iter()]


def test_a_model_of_one_depth_is_refused() -> None:
    with pytest.raises(UsageError, match=r"takes all layers in this model; train one with model\.stack=adaptive"):
        depths_of(saved(stack="universal"), "aa")
