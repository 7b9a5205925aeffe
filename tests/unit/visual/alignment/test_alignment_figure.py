"""Alignments as a figure."""

from xml.etree import ElementTree

import numpy as np

from qkv.data.alignments.words import WordAlignment
from qkv.visual.alignment.figure import CELL, draw_alignments

SVG = "{http://www.w3.org/2000/svg}"


def test_a_cell_for_each_weight_that_can_be_seen() -> None:
    weights = np.array([[0.9, 0.005, 0.0], [0.0, 0.25, 0.75]], dtype=np.float32)
    alignment = WordAlignment(["a<b", "c", "d"], ["x", "y & z"], weights)
    drawing = ElementTree.fromstring(draw_alignments({"one": alignment, "two": alignment}, "Both"))
    cells = [rect for rect in drawing.iter(f"{SVG}rect") if rect.get("width") == rect.get("height") == str(CELL)]
    assert [cell.get("fill-opacity") for cell in cells] == ["0.90", "0.25", "0.75"] * 2
    words = [text.text for text in drawing.iter(f"{SVG}text")]
    assert {"a<b", "y & z", "one", "two"} <= set(words)
    tops = {float(cell.get("y", 0)) for cell in cells}
    assert len(tops) == 2


def test_a_pair_without_words_is_drawn_as_nothing() -> None:
    empty = WordAlignment([], [], np.zeros((0, 0), dtype=np.float32))
    assert "<svg" in draw_alignments({"empty": empty}, "Nothing")
