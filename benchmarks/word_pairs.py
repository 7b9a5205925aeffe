"""Pairs for runs that only have to train: strings of letters and their reversal."""

import random
from pathlib import Path


def write_reversals(path: Path) -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 12))) for _ in range(2000)]
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
