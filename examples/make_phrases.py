"""Joins the pairs of a table to phrases: words and their sounds become lines of several words and their sounds.

    python examples/make_phrases.py hun_train.tsv phrases/train.tsv --words 4 --copies 4

Each copy takes all pairs in another order; the same seed gives the same phrases. --even keeps the words with as many
sounds as letters: a phrase then runs evenly along its source, but for the spaces between its words.
"""

import argparse
import random
from pathlib import Path


def phrases(pairs: list[tuple[str, str]], words: int, copies: int, seed: int) -> list[tuple[str, str]]:
    """(source, target) of `words` pairs each; pairs that are left over in a copy are left out."""
    shuffled, order, found = list(pairs), random.Random(seed), []
    for _ in range(copies):
        order.shuffle(shuffled)
        for first in range(0, len(shuffled) - words + 1, words):
            src, tgt = zip(*shuffled[first : first + words], strict=True)
            found.append((" ".join(src), " ".join(tgt)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="source, tab, target on each line")
    parser.add_argument("out", type=Path)
    parser.add_argument("--words", type=int, default=4, help="pairs in a phrase")
    parser.add_argument("--copies", type=int, default=1, help="how often each pair is used")
    parser.add_argument("--even", action="store_true", help="only words with as many sounds as letters")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = (line.split("\t")[:2] for line in options.table.read_text(encoding="utf-8").splitlines())
    pairs = [(src, tgt) for src, tgt in rows if not options.even or len(src) == len(tgt.split())]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = phrases(pairs, options.words, options.copies, options.seed)
    options.out.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
