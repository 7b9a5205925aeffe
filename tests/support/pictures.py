"""Where the text of an SVG stands, to check that it overlaps nothing and is not cut."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from qkv.visual.svg import BOLD, text_width

SVG = "{http://www.w3.org/2000/svg}"


class Box(NamedTuple):
    """A rectangle on the picture, and what is in it."""

    left: float
    top: float
    right: float
    bottom: float
    what: str = ""

    def holds(self, other: "Box", slack: float = 0.01) -> bool:
        return (
            self.left - slack <= other.left
            and other.right <= self.right + slack
            and self.top - slack <= other.top
            and other.bottom <= self.bottom + slack
        )

    def overlaps(self, other: "Box") -> bool:
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across > 0.01 and down > 0.01


def boxes(picture: Element) -> Iterator[Element]:
    """The groups that are a box with a token in it."""
    return (group for group in picture.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None)


def whole(picture: Element) -> Box:
    left, top, width, height = map(float, str(picture.get("viewBox")).split())
    return Box(left, top, left + width, top + height)


def texts(picture: Element) -> list[tuple[Box, Box | None]]:
    """Every text, and the rectangle of the box that it belongs to, if any."""
    return list(_texts(picture, 0.0, 0.0, str(picture.findtext(f"{SVG}style"))))


def _texts(element: Element, x: float, y: float, style: str) -> Iterator[tuple[Box, Box | None]]:
    transform = str(element.get("transform", ""))
    if moved := re.match(r"translate\((\S+) (\S+)\)", transform):
        x, y = x + float(moved[1]), y + float(moved[2])
    frame = None
    # In a legend the text stands beside its rectangle; a box has a title for the mouse.
    if element.find(f"{SVG}title") is not None and (rect := element.find(f"{SVG}rect")) is not None:
        left, top = x + float(rect.get("x", 0)), y + float(rect.get("y", 0))
        frame = Box(left, top, left + float(str(rect.get("width"))), top + float(str(rect.get("height"))))
    for child in element:
        if child.tag == f"{SVG}text":
            yield _box_of(child, x, y, style), frame
        elif child.tag == f"{SVG}g":
            yield from _texts(child, x, y, style)


def _box_of(text: Element, x: float, y: float, style: str) -> Box:
    (rule,) = re.findall(rf"\.{text.get('class')} \{{([^}}]*)\}}", style)
    size = float(re.findall(r"font-size: (\d+)px", rule)[0])
    width = text_width(str(text.text or ""), size) * (BOLD if "font-weight" in rule else 1.0)
    left = x + float(text.get("x", 0)) - (width / 2 if "text-anchor: middle" in rule else 0)
    baseline = y + float(text.get("y", 0))
    return Box(left, baseline - 0.8 * size, left + width, baseline + 0.2 * size, str(text.text))


def assert_tidy(picture: Element) -> None:
    """All text is inside the picture and inside its own box, and no two texts overlap."""
    found, all_of_it = texts(picture), whole(picture)
    assert found
    for text, frame in found:
        assert all_of_it.holds(text), text
        assert frame is None or frame.holds(text), (text, frame)
    places = [text for text, _ in found]
    for number, text in enumerate(places):
        for other in places[:number]:
            assert not text.overlaps(other), (text, other)
