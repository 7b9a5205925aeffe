"""Named points with a logarithmic axis."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from qkv.visual.scatter import HEIGHT, LINE, WIDTH, Point, draw_points

SVG = "{http://www.w3.org/2000/svg}"


def circles(picture: str) -> list[tuple[float, float, str]]:
    found = ElementTree.fromstring(picture).findall(f"{SVG}circle")
    return [(float(one.attrib["cx"]), float(one.attrib["cy"]), one.attrib["fill"]) for one in found]


POINTS = {
    "slow": Point(1, 40.0, "a"),
    "fast": Point(4, 39.0, "b"),
    "faster": Point(16, 37.0, "b"),
}


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_twice_as_fast_is_as_far_everywhere_and_better_is_higher(higher_is_better: bool) -> None:
    by_height = sorted(circles(draw_points(POINTS, "t", "x", "y", higher_is_better)))
    (x0, y0, first), (x1, y1, second), (x2, y2, third) = by_height
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y2 - y1 == pytest.approx(2 * (y1 - y0), abs=0.3)
    assert (y0 < y2) == higher_is_better
    assert first != second == third
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y, _ in by_height)


def test_a_point_that_is_not_named_is_there_all_the_same() -> None:
    points = {"seen": Point(1, 40.0, "a"), "hidden": Point(2, 39.0, "a", named=False)}
    picture = draw_points(points, "t", "x", "y", True)
    assert len(circles(picture)) == 2
    found = ElementTree.fromstring(picture)
    assert [text.text for text in found.findall(f"{SVG}text") if text.text in points] == ["seen"]
    assert [title.text for title in found.findall(f"{SVG}circle/{SVG}title")] == ["seen", "hidden"]


def test_names_may_hold_anything_and_do_not_cover_each_other() -> None:
    names = [f"a < b & {number}" for number in range(6)]
    picture = draw_points({name: Point(4, 40.0, "g") for name in names}, "t & t", "x", "y", True)
    texts = ElementTree.fromstring(picture).findall(f"{SVG}text")
    places = sorted(float(text.attrib["y"]) for text in texts if text.text in names)
    assert len(places) == 6
    assert all(second - first >= LINE for first, second in pairwise(places))
