"""Charts with logarithmic axes, by what matplotlib drew and by the SVG that comes out."""

from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from qkv.core.figures import DARK, LIGHT, VARIABLES
from qkv.visual.charts import POINTS as SIZE
from qkv.visual.charts import Point, draw_lines, draw_points, paint_lines, paint_points

SVG = "{http://www.w3.org/2000/svg}"
POINTS = {
    "slow": Point(1, 40.0, "a"),
    "fast": Point(4, 39.0, "b"),
    "faster": Point(16, 37.0, "b"),
}


def axes() -> Any:
    return Figure((SIZE[0] / 72, SIZE[1] / 72), 72, layout="constrained").add_subplot()


def texts(picture: str) -> list[str | None]:
    return [text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_a_power_of_the_length_is_a_straight_line_as_steep_as_its_exponent() -> None:
    lengths = [4.0, 8.0, 16.0, 32.0]
    drawn = axes()
    paint_lines(drawn, {"n": [(n, n) for n in lengths], "n²": [(n, n**2) for n in lengths]})
    drawn.figure.draw_without_rendering()
    first, second = ([tuple(p) for p in drawn.transData.transform(line.get_xydata())] for line in drawn.lines)
    for line in (first, second):
        steps = [(x1 - x0, y1 - y0) for (x0, y0), (x1, y1) in pairwise(line)]
        assert all(step == pytest.approx(steps[0], abs=0.2) for step in steps)
    (x0, y0), (x1, y1) = first[0], first[-1]
    assert (x1 > x0, y1 > y0) == (True, True)
    assert second[-1][1] - second[0][1] == pytest.approx(2 * (y1 - y0), abs=0.5)


def test_every_line_is_named_whatever_its_name_holds() -> None:
    picture = draw_lines({"a < $b$": [(1, 1), (2, 10)], "c": [(1, 2), (2, 20)]}, "t & t", "x", "注意")
    assert [text for text in texts(picture) if text in ("a < $b$", "c")] == ["c", "a < $b$"], "highest end first"
    assert "注意" in texts(picture)
    assert ElementTree.fromstring(picture).findtext(f"{SVG}title") == "t & t"


def test_one_point_and_numbers_below_one_can_be_drawn() -> None:
    assert "a" in texts(draw_lines({"a": [(512, 0.002)]}, "t", "x", "y"))


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_twice_as_fast_is_as_far_everywhere_and_better_is_higher(higher_is_better: bool) -> None:
    drawn = axes()
    paint_points(drawn, POINTS, higher_is_better)
    places = [drawn.transData.transform(marker.get_xydata())[0] for marker in drawn.lines]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y2 - y1 == pytest.approx(2 * (y1 - y0), abs=0.3)
    assert (y0 > y2) == higher_is_better
    first, second, third = (marker.get_color() for marker in drawn.lines)
    assert first != second == third
    assert all(0 < x < SIZE[0] and 0 < y < SIZE[1] for x, y in places)


def test_a_point_that_is_not_named_is_there_all_the_same() -> None:
    points = {"seen": Point(1, 40.0, "a"), "hidden": Point(2, 39.0, "a", named=False)}
    picture = draw_points(points, "t", "x", "y", True)
    assert [text for text in texts(picture) if text in points] == ["seen"]
    titles = [title.text for title in ElementTree.fromstring(picture).iter(f"{SVG}title")]
    assert titles == ["t", "seen", "hidden"]


def test_names_may_hold_anything_and_do_not_cover_each_other() -> None:
    names = [f'a < "b" & {number}' for number in range(6)]
    drawn = axes()
    paint_points(drawn, {name: Point(4, 40.0, "g") for name in names}, True)
    boxes = [label.get_window_extent() for label in drawn.texts]
    assert len(boxes) == 6
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    x, y = drawn.transData.transform((4, 40.0))
    assert not any(box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1 for box in boxes), "nor the points"
    picture = draw_points({name: Point(4, 40.0, "g") for name in names}, "t & t", "x", "y", True)
    assert set(names) <= set(texts(picture))


def test_a_chart_has_the_colours_of_both_themes_and_is_the_same_each_time() -> None:
    picture = draw_points(POINTS, "t", "x", "y", True)
    style = str(ElementTree.fromstring(picture).findtext(f"{SVG}style"))
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for name, bright, dim in zip(VARIABLES.values(), LIGHT, DARK, strict=True):
        assert f"--{name}: {bright};" in light
        assert f"--{name}: {dim};" in dark
    drawn = picture.split("</style>", 1)[1]
    assert "var(--s0)" in drawn
    assert "var(--text)" in drawn
    assert not any(placeholder in drawn for placeholder in VARIABLES)
    assert picture == draw_points(POINTS, "t", "x", "y", True)
