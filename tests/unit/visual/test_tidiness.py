"""Text in a picture stays inside its box and the picture, whatever it says, and overlaps no other text."""

import random
import string
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.visual.attention_patterns import draw_patterns, every_pattern
from qkv.visual.beam_tree import Node, draw_tree
from qkv.visual.depth import Depths, TokenDepth, draw_depths
from qkv.visual.drafts import DraftPass, draw_drafts
from qkv.visual.passes import CanvasCell, draw_passes
from qkv.visual.positions import draw_positions, every_scheme
from qkv.visual.svg import WIDTHS, fitted, text_width
from tests.support.pictures import assert_tidy

TOKENS = [
    "a",
    "▁Donaudampfschifffahrtsgesellschaft",
    "W" * 23,
    "注意机制" * 12,
    "👩👩👧" * 9,
    "",
    "<&>",
]
TITLES = ["x", "A text that is much longer than any picture should be wide, said twice. " * 2, "注意" * 90]


@pytest.mark.parametrize("title", TITLES, ids=lambda title: str(len(title)))
@pytest.mark.parametrize("tokens", [TOKENS, ["a"], TOKENS[1:3]], ids=len)
def test_pictures_of_tokens(title: str, tokens: list[str]) -> None:
    root = Node("START", 0.0, None, 0, 0, best=True)
    nodes = [root, *(Node(token, -123.456, root, 1, place) for place, token in enumerate(tokens))]
    nodes += [Node(token, -99.9, nodes[1], 2, place, True, score=-1234.5) for place, token in enumerate(tokens)]
    depths = [TokenDepth(token, 2) for token in tokens]
    pictures = [
        draw_tree(nodes, title),
        draw_drafts([DraftPass(0, tokens, "said", tokens), DraftPass(9, [], tokens[-1], [])] * 6, title),
        draw_passes(
            [[CanvasCell(place, token, 0.5, place % 2 == 0) for place, token in enumerate(tokens)]] * 12, title
        ),
        draw_depths(Depths(depths, depths[:1], 3, 6, "output"), title),
    ]
    for picture in pictures:
        assert_tidy(ElementTree.fromstring(picture))


@pytest.mark.parametrize("length", [2, 5, 12, 32, 90])
def test_pictures_of_panels(length: int) -> None:
    """Also where a panel is narrower than its name."""
    assert_tidy(ElementTree.fromstring(draw_patterns(every_pattern(length), TITLES[1])))
    assert_tidy(ElementTree.fromstring(draw_positions(every_scheme(length), "x")))
    one = {"a name that is longer than everything that is drawn below it, by far": torch.ones(length, length).bool()}
    assert_tidy(ElementTree.fromstring(draw_patterns(one, "x")))


@given(st.text(max_size=60), st.floats(10, 200), st.sampled_from([10, 12, 13, 15]))
def test_a_fitted_text_fits_and_is_whole_or_a_beginning(text: str, width: float, size: int) -> None:
    found = fitted(text, width, size)
    assert text_width(found, size) <= max(width, text_width("…", size))
    assert found == text or (found.endswith("…") and text.startswith(found[:-1]))


def test_a_text_is_not_shortened_more_than_it_must() -> None:
    chance = random.Random(1)
    for _ in range(200):
        text = "".join(chance.choices(string.printable[:95], k=40))
        found = fitted(text, 150, 13)
        assert text_width(text[: len(found)] + "…", 13) > 150


def test_the_widths_cover_every_printable_character() -> None:
    assert len(WIDTHS) == len([chr(code) for code in range(128) if chr(code).isprintable()])
    assert text_width("i", 10) < text_width("m", 10) < text_width("注", 10)
    assert text_width("e\u0301", 10) == text_width("e", 10)
