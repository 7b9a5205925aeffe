"""A picture of characters shows each weight in its place."""

import pytest

from qkv.visual.alignment.text import ASCII, BLOCKS, draw_alignment, shades_for


def test_the_picture_of_a_known_matrix() -> None:
    weights = [[1.0, 0.0, 0.0], [0.0, 0.51, 0.49], [0.25, 0.0, 0.75]]
    assert draw_alignment(["TH", "R", "UW"], ["t", "h", "o"], weights) == [
        "   t h o",
        "TH ██",
        "R    ▒▒▒▒",
        "UW ░░  ▓▓",
    ]


def test_long_names_are_written_downwards_and_end_above_their_column() -> None:
    assert draw_alignment(["x"], ["abc", "d"], [[0.0, 1.0]], ASCII) == ["  a", "  b", "  c d", "x   ##"]


def test_cells_are_narrow_where_lines_would_be_too_long() -> None:
    wide, narrow = (draw_alignment(["aa"], ["b"] * 4, [[1.0] * 4], ASCII, width) for width in (11, 10))
    assert wide == ["   b b b b", "aa ########"]
    assert narrow == ["   bbbb", "aa ####"]


@pytest.mark.parametrize(("weight", "shade"), [(-0.1, 0), (0.12, 0), (0.13, 1), (0.87, 3), (0.88, 4), (1.2, 4)])
def test_shades_are_even_steps_and_weights_that_are_off_by_rounding_are_shown(weight: float, shade: int) -> None:
    assert draw_alignment(["x"], ["y"], [[weight]], "01234")[1] == f"x {str(shade) * 2}"


def test_nothing_said_is_an_empty_picture() -> None:
    assert draw_alignment([], ["a", "b"], []) == [" a b"]


@pytest.mark.parametrize(
    ("encoding", "shades"), [("utf-8", BLOCKS), ("cp437", BLOCKS), ("ascii", ASCII), ("latin-1", ASCII), (None, ASCII)]
)
def test_an_encoding_without_blocks_gets_plain_characters(encoding: str | None, shades: str) -> None:
    assert shades_for(encoding) == shades
