"""The attention of each output token, drawn in characters for the terminal."""

import shutil
import sys
from collections.abc import Sequence
from itertools import zip_longest

from qkv.data.aligned import one_line
from qkv.data.alignments.words import WordAlignment
from qkv.translate.output import Translation, words_of_translation

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


def draw_words(alignment: WordAlignment) -> str:
    """The weights of target words, a line each, under the source words; as wide as the terminal at most."""
    encoding = sys.stdout.encoding if sys.stdout else None
    columns = shutil.get_terminal_size().columns
    lines = draw_alignment(
        alignment.tgt_words, alignment.src_words, alignment.weights.tolist(), shades_for(encoding), columns
    )
    return "\n".join([*lines, ""])


def with_matrix(number: int, translation: Translation) -> str:
    """The text, and below it the weights of its words."""
    return f"{one_line(translation.text)}\n{draw_words(words_of_translation(translation))}\n"


def _shade(weight: float, shades: str) -> str:
    return shades[round(min(max(weight, 0.0), 1.0) * (len(shades) - 1))]
