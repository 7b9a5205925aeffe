"""Draw what a model with a copy head copies: for each token of its output, from where, and how surely.

    python examples/draw_copies.py runs/copy-unseen "aa kxlga bc msufy" copies.svg

Rows are the tokens of the output; the first column is how much of a token's probability was generated from the
vocabulary, the others how much was copied from each source token.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qkv import Translator
from qkv.core.figures import SERIES, standalone_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 64, 30
"""Pixels of a cell, across and down."""


def draw(tokens: list[str], src_tokens: list[str], shares: list[list[float]], title: str) -> str:
    """`shares[token]` are the shares of generating and of copying each source token; they add up to 1."""
    columns = ["generated", *src_tokens]

    def paint(axes: "Axes") -> None:
        from matplotlib.patches import Rectangle

        for row, own in enumerate(shares):
            for column, share in enumerate(own):
                colour = SERIES[0] if column else SERIES[1]
                axes.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, facecolor=colour, alpha=share))
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(tokens) - 0.5, -0.5), ylabel="output")
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(tokens)), tokens)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)

    return standalone_chart(paint, CELL[0] * (len(columns) + 1), CELL[1] * (len(tokens) + 1), title)


def main() -> None:
    model, text, path = sys.argv[1:]
    found = Translator(model, engine="torch").translate(text, copies=True)
    assert found.copied is not None
    shares = []
    for copied in found.copied:
        row = [0.0] * (1 + len(found.src_tokens))
        row[0] = 1.0 if copied is None else 1 - copied.share
        if copied is not None:
            row[1 + copied.src] = copied.share
        shares.append(row)
    Path(path).write_text(draw(found.tokens, found.src_tokens, shares, f"What the output of {text} copies"))


if __name__ == "__main__":
    main()
