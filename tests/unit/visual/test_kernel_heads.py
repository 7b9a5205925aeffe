"""The picture of the heads of a convolution: each map where its head looks, and the documentation shows it."""

from pathlib import Path
from xml.etree import ElementTree

import torch
from torch import nn

from qkv.visual.convolution import attention_from_convolution
from qkv.visual.kernel_heads import draw_heads, head_maps

DOCS = Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def picture() -> str:
    kernel = nn.Conv2d(1, 1, 3, padding=1)
    maps = {f"α = {alpha:g}": head_maps(attention_from_convolution(kernel, alpha), 7) for alpha in (1.0, 104.0)}
    return draw_heads(maps, columns=3, title="The nine heads of a 3x3 convolution")


def test_a_sharp_head_sees_the_pixel_of_its_cell() -> None:
    maps = head_maps(attention_from_convolution(nn.Conv2d(2, 3, 3, padding=1)), 7)
    places = [(int(m.argmax()) // 7 - 3, int(m.argmax()) % 7 - 3) for m in maps]
    assert places == [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)]
    assert torch.equal(maps.sum(dim=(1, 2)), torch.ones(9))


def test_it_is_drawn_as_weights_at_their_pixels() -> None:
    root = ElementTree.fromstring(picture())
    groups = root.findall(f"{SVG}g")
    assert len(groups) == 18
    sharp = [g.findall(f"{SVG}rect[@class='seen']") for g in groups[9:]]
    assert [len(seen) for seen in sharp] == [1] * 9
    assert [(int(seen[0].attrib["y"]), int(seen[0].attrib["x"])) for seen in sharp] == [
        (row, column) for row in (2, 3, 4) for column in (2, 3, 4)
    ]
    soft = [len(g.findall(f"{SVG}rect[@class='seen']")) for g in groups[:9]]
    assert min(soft) > 5


def test_the_documentation_shows_it() -> None:
    assert (DOCS / "images" / "convolution.svg").read_text(encoding="utf-8") == picture()
