"""Lines with logarithmic axes."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from qkv.visual.lines import LEAST_GAP, draw_lines

SVG = "{http://www.w3.org/2000/svg}"


def polylines(picture: str) -> list[list[tuple[float, float]]]:
    lines = ElementTree.fromstring(picture).findall(f"{SVG}polyline")
    return [[tuple(map(float, point.split(","))) for point in line.attrib["points"].split()] for line in lines]


def test_a_power_of_the_length_is_a_straight_line_as_steep_as_its_exponent() -> None:
    lengths = [4.0, 8.0, 16.0, 32.0]
    first, second = polylines(
        draw_lines({"n": [(n, n) for n in lengths], "n²": [(n, n**2) for n in lengths]}, "t", "x", "y")
    )
    for line in (first, second):
        steps = [(x1 - x0, y1 - y0) for (x0, y0), (x1, y1) in pairwise(line)]
        assert all(step == pytest.approx(steps[0], abs=0.2) for step in steps)
    (x0, y0), (x1, y1) = first[0], first[-1]
    assert x1 > x0
    assert y1 < y0, "more is higher, and pixels count downwards"
    assert second[-1][1] - second[0][1] == pytest.approx(2 * (y1 - y0), abs=0.5)


def test_names_at_the_ends_do_not_cover_each_other_and_may_hold_anything() -> None:
    picture = draw_lines({"a < b": [(1, 1), (2, 10)], "c": [(1, 2), (2, 10)]}, "t & t", "x", "y")
    texts = ElementTree.fromstring(picture).findall(f"{SVG}text")
    places = {text.text: float(text.attrib["y"]) for text in texts if text.text in ("a < b", "c")}
    assert abs(places["a < b"] - places["c"]) >= LEAST_GAP


def test_one_point_and_numbers_below_one_can_be_drawn() -> None:
    ((x, y),) = polylines(draw_lines({"a": [(512, 0.002)]}, "t", "x", "y"))[0:1][0]
    assert x > 0
    assert y > 0
