"""The attention of each output token, drawn in characters for the terminal."""

from collections.abc import Sequence
from itertools import zip_longest

BLOCKS = " ░▒▓█"
ASCII = " .:+#"


def shades_for(encoding: str | None) -> str:
    """Block characters where the encoding has them, else plain ones."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except UnicodeEncodeError:
        return ASCII
    return BLOCKS


def draw_alignment(
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Sequence[Sequence[float]],
    shades: str = BLOCKS,
    width: int = 80,
) -> list[str]:
    """A line for each of `rows`, under the names of `columns`; the darker, the larger the weight (0 to 1).

    Names of columns are written downwards. A cell is two characters wide, and one where the lines would be longer than
    `width`.
    """
    margin = max(map(len, rows), default=0) + 1
    cell = 2 if margin + 2 * len(columns) <= width else 1
    names = zip_longest(*(reversed(name) for name in columns), fillvalue=" ")
    header = [" " * margin + "".join(letter.ljust(cell) for letter in line) for line in names][::-1]
    drawn = [
        name.ljust(margin) + "".join(_shade(weight, shades) * cell for weight in row)
        for name, row in zip(rows, weights, strict=True)
    ]
    return [line.rstrip() for line in header + drawn]


def _shade(weight: float, shades: str) -> str:
    return shades[round(min(max(weight, 0.0), 1.0) * (len(shades) - 1))]
