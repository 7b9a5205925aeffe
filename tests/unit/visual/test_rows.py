"""Rows of boxes, also where there is nothing to put into them."""

from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from qkv.visual.rows import TokenCell, draw_rows
from tests.support.pictures import boxes


@pytest.mark.parametrize("rows", [[], [[]], [[], [TokenCell("a", 2, "said")]]])
def test_rows_without_a_token_are_a_picture(rows: Sequence[Sequence[TokenCell]]) -> None:
    drawn = draw_rows(rows, "title", (), "")
    assert len(list(boxes(ElementTree.fromstring(drawn)))) == sum(map(len, rows))
    assert drawn.count('class="pass"') == len(rows)
